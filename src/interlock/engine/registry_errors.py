"""What engines and registries say when they refuse, in words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from docker.errors import DockerException
from requests.exceptions import RequestException

from interlock.engine.base import short
from interlock.errors import RegistryError

# What is looked for in the message (the first that is found counts), what it means, and what to do. {host} is the
# registry's, {words} the message's own.
MEANINGS = (
    (
        r"no basic auth credentials|asks for a login",
        "asks for a login, and the engine's credential store has none for it",
        "Log in once: docker login {host}",
    ),
    (
        r"denied|insufficient_scope|\b403\b",
        "does not allow this user to do that (access denied)",
        "Ask for the right to it, or name another namespace.",
    ),
    (
        r"unauthorized|authentication required|incorrect username or password|\b401\b",
        "refuses the user or password that the engine's credential store has for it",
        "Log in anew: docker login {host}",
    ),
    (
        r"[Cc]redentials? ?store|docker-credential-",
        "needs a login, and the engine's credential store fails ({words})",
        "Mend credsStore and credHelpers in the engine's config.json.",
    ),
    (
        r"HTTP 405|\b405 |[Mm]ethod not allowed|operation is unsupported",
        "takes nothing: it is read-only (405 Method Not Allowed)",
        "Push to a registry that takes images, or end its maintenance.",
    ),
    (
        r"HTTP response to HTTPS client|WRONG_VERSION_NUMBER|record layer failure",
        "answers without TLS, which engines refuse from other machines",
        "Give it a certificate, or add {host} to insecure-registries in /etc/docker/daemon.json.",
    ),
    (
        r"x509|certificate|CERTIFICATE_VERIFY_FAILED",
        "has a certificate that this machine does not trust",
        "Put its authority's into /etc/docker/certs.d/{host}/ca.crt.",
    ),
    (r"toomanyrequests|\b429\b", "has had too many requests from here ({words})", "Log in, or wait and try again."),
    (
        r"no space left on device",
        "has an image for which the engine's disk has no room",
        "Make room: docker system df, docker image prune.",
    ),
    (
        r"\b50[0-9] (Internal|Bad|Service|Gateway|Insufficient)|unknown error",
        "fails ({words})",
        "Look at its log: its disk may be full.",
    ),
    (
        r"refused|no such host|not known|resolution|timeout|timed out|unreachable|no route|EOF|reset by peer|aborted",
        "cannot be reached ({words})",
        "Start it, or correct its name.",
    ),
)
# The last part of a Go or Python error's chain tells its cause.
CAUSE = re.compile(r"\[Errno -?\d+\] ([^'\")]+)")


def explain(host: str, message: str) -> RegistryError:
    """The error of a registry that said this, by itself or through the engine."""
    words = _words(message)
    for pattern, found, todo in MEANINGS:
        if re.search(pattern, message):
            return RegistryError(
                key=host, found=f"the registry {found.format(words=words)}", todo=todo.format(host=host)
            )
    return RegistryError(key=host, found=f"the registry or the engine says: {words}", todo="See the registry's log.")


def _words(message: str) -> str:
    cause = CAUSE.findall(message)
    return str(cause[-1] if cause else message.strip().rpartition(": ")[2]).strip("\"')( .")


@contextmanager
def explained(host: str) -> Iterator[None]:
    """RegistryError for what goes wrong below this between here, the engine and the registry."""
    try:
        yield
    except DockerException as error:
        raise explain(host, short(error)) from None
    except RequestException as error:
        raise explain(host, str(error)) from None
