/* splice REPEAT URL FILE: GET of a file over one connection, as often, from the socket into FILE without a copy to user
 * space. /dev/null takes the bytes as well. What a downloader could do that never looked at them.
 *
 * HTTP by address alone: URL is http://IP:PORT/PATH.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIPE_BYTES (1 << 20)

static void fail(const char *what) {
    fprintf(stderr, "splice: %s: %s\n", what, errno ? strerror(errno) : "not as expected");
    exit(1);
}

static int connect_to(const char *ip, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, ip, &address.sin_addr) != 1) fail("the address");
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address)) fail("connect");
    return server;
}

/* The answer's head, byte by byte so that nothing of the body is taken, and the length of the body. */
static long long read_head(int server) {
    char head[4096] = "";
    for (size_t length = 0; length < sizeof head - 1 && !strstr(head, "\r\n\r\n"); length++)
        if (read(server, head + length, 1) != 1) fail("the answer's head");
    const char *found = strcasestr(head, "\r\nContent-Length: ");
    errno = 0;
    if (strncmp(head, "HTTP/1.1 200 ", 13) || !found) fail("the answer's status or length");
    return atoll(found + 18);
}

static void pass_on(int server, const int *ends, int file, long long left) {
    while (left > 0) {
        ssize_t taken = splice(server, NULL, ends[1], NULL, PIPE_BYTES, SPLICE_F_MOVE | SPLICE_F_MORE);
        if (taken <= 0) { errno = taken ? errno : 0; fail("the answer ended before its time"); }
        left -= taken;
        while (taken > 0) {
            ssize_t given = splice(ends[0], NULL, file, NULL, taken, SPLICE_F_MOVE | SPLICE_F_MORE);
            if (given <= 0) fail("splice to the file");
            taken -= given;
        }
    }
}

int main(int count, char **words) {
    char ip[64], path[256];
    int port, ends[2];
    if (count != 4 || sscanf(words[2], "http://%63[0-9.]:%d%255s", ip, &port, path) != 3) {
        fprintf(stderr, "usage: splice REPEAT http://IP:PORT/PATH FILE\n");
        return 2;
    }
    char request[512];
    int size = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, ip);
    int server = connect_to(ip, port);
    if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) < 0) fail("pipe");
    for (int number = 0; number < atoi(words[1]); number++) {
        int file = open(words[3], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0) fail(words[3]);
        if (write(server, request, size) != size) fail("the request");
        pass_on(server, ends, file, read_head(server));
        if (close(file)) fail(words[3]);
    }
    return 0;
}
