/* Starts, feeds and reaps processes for whoever writes to its stdin, many at a time: no engine stands between them.
 *
 * Asked, a line each, with the bytes that it announces after it; ID is a number below 256 of the asker's choice:
 *   start ID BYTES   words that each end with a NUL: NAME=VALUE for the environment, the launcher's options, `--`, and
 *                    the program; with --feed its stdin stays open
 *   tell ID BYTES    bytes for its stdin
 *   close ID 0       no more will come
 *   drop ID BYTES    files that each end with a NUL, whose pages in memory are dropped unless a process has them mapped
 * Answers, of the same form:
 *   out ID BYTES     what it printed; err: on stderr
 *   end ID BYTES     what it cost, as the launcher says it, once it has ended and nothing that it printed is missing;
 *                    the exit code is 127 of what could not be started
 */
#ifndef AGENT_H
#define AGENT_H

int agent(void);

#endif
