"""What a registry or an engine says when it refuses, as a cause and what to do about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from interlock.engine.client import FREE_SPACE, engine_words
from interlock.engine.registry.session import UnsafeAnswerError
from interlock.errors import RegistryError

# What a request to a registry ends with where there is no answer, or none that can be used.
UNREADABLE = (RequestException, HTTPError, UnsafeAnswerError, ValueError)

# By cause: a pattern in the message (the first match counts), what it means, and what to do. {host} is the registry's,
# {words} the end of the message.
MEANINGS = {
    "no login": (
        r"no basic auth credentials|asks for a login",
        "asks for a login, and the engine's credential store has none for it",
        "Log in once: docker login {host}",
    ),
    "denied": (
        r"denied|insufficient_scope|\b403\b",
        "denies access to this user",
        "Ask its owner for permission, or use another namespace.",
    ),
    "wrong login": (
        r"unauthorized|authentication required|incorrect username or password|\b401\b",
        "refuses the user or password that the engine's credential store has for it",
        "Log in again: docker login {host}",
    ),
    "credential store": (
        r"[Cc]redentials? ?store|docker-credential-",
        "needs a login, and the engine's credential store fails ({words})",
        "Fix credsStore and credHelpers in the engine's config.json.",
    ),
    "read-only": (
        r"HTTP 405|\b405 |[Mm]ethod not allowed|operation is unsupported",
        "is read-only (405 Method Not Allowed)",
        "Push to another registry, or end its read-only mode.",
    ),
    "no TLS": (
        r"HTTP response to HTTPS client|WRONG_VERSION_NUMBER|record layer failure",
        "answers without TLS, which engines refuse unless it runs on this machine",
        "Give it a certificate, or add {host} to insecure-registries in /etc/docker/daemon.json.",
    ),
    "untrusted certificate": (
        r"x509|certificate|CERTIFICATE_VERIFY_FAILED",
        "has a certificate that this machine does not trust",
        "Copy its CA certificate to /etc/docker/certs.d/{host}/ca.crt.",
    ),
    "rate limit": (
        r"toomanyrequests|\b429\b",
        "limits requests from this machine ({words})",
        "Log in, or wait and try again.",
    ),
    "engine disk full": (
        r"no space left on device",
        "sends an image that does not fit on the engine's disk",
        FREE_SPACE,
    ),
    "server error": (
        r"\b50[0-9] (Internal|Bad|Service|Gateway|Insufficient)|unknown error",
        "fails ({words})",
        "Read its log; its disk may be full.",
    ),
    "unreachable": (
        r"refused|no such host|not known|resolution|timeout|timed out|unreachable|no route|EOF|reset by peer|aborted",
        "cannot be reached ({words})",
        "Start it, or correct its name.",
    ),
}
# The last part of a Go or Python error's chain tells its cause.
CAUSE = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")


def cause_of(message: str) -> str:
    """Return the cause, a key of MEANINGS, that a message of an engine or a registry tells; empty if it tells none."""
    return next((cause for cause, (pattern, _, _) in MEANINGS.items() if re.search(pattern, message)), "")


def explain(host: str, message: str) -> RegistryError:
    """Return the error for a message of a registry, which came from it or through the engine."""
    words = _words(message)
    cause = cause_of(message)
    if not cause:
        found = f"the registry or the engine answered: {words}"
        return RegistryError(key=host, found=found, todo="Read the registry's log.")
    _, found, todo = MEANINGS[cause]
    return RegistryError(key=host, found=f"the registry {found.format(words=words)}", todo=todo.format(host=host))


def strange(host: str, found: str) -> RegistryError:
    """Return the error for an answer that no registry should give."""
    return RegistryError(
        key=host, found=f"the registry's answer cannot be used: {found}", todo="Try again, or use another registry."
    )


def failure_of(host: str, error: Exception) -> RegistryError:
    """Return the error for a request that had no answer, or none that is used."""
    return strange(host, str(error)) if isinstance(error, UnsafeAnswerError) else explain(host, str(error))


def _words(message: str) -> str:
    cause = CAUSE.findall(message)
    return str(cause[-1] if cause else message.strip().rpartition(": ")[2]).strip("\"')( .")


@contextmanager
def registry_errors(host: str) -> Iterator[None]:
    """Raise RegistryError for every failure of the engine or the registry within the block."""
    try:
        yield
    except DockerException as error:
        raise explain(host, engine_words(error)) from None
    except RequestException as error:
        raise explain(host, str(error)) from None
