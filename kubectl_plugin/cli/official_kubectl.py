"""`-o go-template`: kubectl itself prints the objects, with the flags of this command line.

Go's templates exist in Go only; a copy of them in Python would differ from kubectl's in many cases.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from kubectl_plugin.cli.errors import AlreadyReported, CommandFailed
from kubectl_plugin.cli.get_flags import GetOptions
from kubectl_plugin.cli.global_flags import ConnectionFlags
from scheduler_core.model.printable import visible_lines

# kubectl's flags for the fields of ConnectionFlags.
_CONNECTION: Final = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "user": "--user",
    "namespace": "--namespace",
    "as_user": "--as",
    "as_uid": "--as-uid",
    "token": "--token",
    "server": "--server",
    "certificate_authority": "--certificate-authority",
    "tls_server_name": "--tls-server-name",
    "request_timeout": "--request-timeout",
}


def print_go_template(
    what: Sequence[str], options: GetOptions, connection: ConnectionFlags, *, all_namespaces: bool
) -> None:
    """Let kubectl print the objects that `what` names, as arguments of `kubectl get`.

    Raises CommandFailed without kubectl, AlreadyReported after an error of kubectl.
    """
    program = shutil.which("kubectl")
    if program is None:
        raise CommandFailed(
            f"-o {options.output.format} needs kubectl, which is not on PATH; "
            "-o jsonpath and -o custom-columns do without"
        )
    flags = [*_connection(connection), *_selection(options), *(["-A"] if all_namespaces else [])]
    output = f"--output={options.output.format}={options.output.template}"
    done = subprocess.run(
        [program, "get", *flags, output, "--", *what], capture_output=True, encoding="utf-8", errors="replace"
    )
    # Escape control characters on a terminal only; programs get the exact text.
    sys.stdout.write(visible_lines(done.stdout) if sys.stdout.isatty() else done.stdout)
    sys.stderr.write(visible_lines(done.stderr))
    if done.returncode:
        raise AlreadyReported


def _connection(given: ConnectionFlags) -> Iterator[str]:
    for field, flag in _CONNECTION.items():
        value = getattr(given, field)
        if value is not None:
            yield f"{flag}={value}"
    yield from (f"--as-group={group}" for group in given.as_groups)
    if given.insecure:
        yield "--insecure-skip-tls-verify"
    if given.verbosity:
        yield f"--v={given.verbosity}"


def _selection(options: GetOptions) -> Iterator[str]:
    texts = {
        "--selector": options.selector,
        "--field-selector": options.field_selector,
        "--sort-by": options.sort_by,
    }
    yield from (f"{flag}={text}" for flag, text in texts.items() if text)
    yield f"--chunk-size={options.chunk_size}"
    if options.show_managed_fields:
        yield "--show-managed-fields"
    if options.ignore_not_found:
        yield "--ignore-not-found"
