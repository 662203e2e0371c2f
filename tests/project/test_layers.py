"""Who may import what. This table is the documentation; the tests keep it true.

A part imports itself and what stands below it; parts on one line do not know each other.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support.import_statements import import_statements

ROOT = Path(__file__).parents[2]
CORE = "scheduler_core."

LAYERS = [  # top to bottom
    ["webhook", "kubectl_plugin", "sandbox"],
    [CORE + "answers"],
    [CORE + "app", CORE + "simulate"],
    [CORE + part for part in ("engine", "controllers", "kube", "logs", "health", "certificates", "serving")],
    [CORE + "plugins"],
    [CORE + "framework"],
    [CORE + "state"],
    [CORE + "quota", CORE + "topology", CORE + "load"],
    [CORE + "arrays"],
    [CORE + "config"],
    [CORE + "model", CORE + "printing"],
    [CORE + "errors", CORE + "decoding"],
]
# Parts that may import less than their layer allows.
NARROW = {
    CORE + "kube": {CORE + "model", CORE + "errors", CORE + "decoding"},
    CORE + "logs": {CORE + "model", CORE + "errors"},
    CORE + "health": {CORE + "errors"},
    CORE + "certificates": {CORE + "errors"},
    CORE + "serving": {CORE + "errors"},
    CORE + "answers": {
        *(CORE + part for part in ("model", "errors", "decoding", "config", "arrays", "quota", "topology")),
        *(CORE + part for part in ("load", "state", "framework", "plugins", "engine", "controllers")),
        *(CORE + part for part in ("simulate", "printing", "certificates")),
    },
    "webhook": {
        *(CORE + part for part in ("model", "errors", "arrays", "quota", "topology", "state")),
        *(CORE + part for part in ("kube", "logs", "health", "certificates", "serving", "decoding")),
    },
}
EDGES = ("webhook", "kubectl_plugin", "sandbox")
# What the unit tests of a part use besides: what calls it, or what shows its results.
TESTS_ALSO = {
    CORE + "state": {CORE + "engine"},
    CORE + "framework": {CORE + "plugins", CORE + "engine"},
    CORE + "plugins": {CORE + "engine", CORE + "controllers"},
    CORE + "engine": {CORE + "controllers"},
    CORE + "controllers": {CORE + "engine", CORE + "simulate"},
    CORE + "kube": {CORE + "certificates"},
    CORE + "app": {CORE + "simulate"},
}
BOTTOM = [CORE + part for part in ("errors", "model", "printing", "config")]
PURE = [
    *BOTTOM,
    *(CORE + part for part in ("arrays", "quota", "topology", "load", "state")),
    *(CORE + part for part in ("framework", "plugins", "engine", "controllers", "simulate", "answers")),
]
# Modules that speak to the world or depend on its state; `now` and seeds are arguments in the pure parts.
IMPURE = {"time", "random", "os", "socket", "threading", "logging", "asyncio", "subprocess"}
THIRD_PARTY = {  # package: patterns of the modules that may import it
    "msgspec": ["*"],
    "yaml": ["*"],
    "numpy": [*(f"{part}.*" for part in PURE if part not in BOTTOM), CORE + "app.*"],
    "kubernetes": [CORE + "kube.*", "sandbox.demo.api_objects"],
    "urllib3": [CORE + "kube.*"],
    "flask": ["webhook.*", "kubectl_plugin.console.web.*"],
    "werkzeug": ["webhook.*", "sandbox.*", "kubectl_plugin.console.web.*"],
    "cheroot": [CORE + "serving.*"],
    "jinja2": ["kubectl_plugin.console.web.*"],
    "markupsafe": ["kubectl_plugin.console.*"],
    "cryptography": ["*.certificates"],
    "click": ["kubectl_plugin.*", "*.__main__", "*cli"],
    "mcp": ["kubectl_plugin.assistant.tools"],
    "prometheus_client": [CORE + "app.*", "webhook.*"],
    "aiohttp": ["sandbox.*"],
    "hpack": [CORE + "kube.http.http2_headers"],
}
ORDER = {part: depth for depth, line in enumerate(reversed(LAYERS)) for part in line}


def sources() -> Iterator[tuple[str, Path]]:
    for top in ("scheduler_core", *EDGES):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(sources())


def imports(module: str, path: Path) -> Iterator[str]:
    """Every module that a source names, at any depth, relative and type-checking imports included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in import_statements(path.read_text()):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            stem = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*stem, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str | None:
    return next((p for p in ORDER if module == p or module.startswith(f"{p}.")), None)


def layer_faults(own: str, target: str) -> Iterator[str]:
    other = part_of(target)
    if other is None or other == own:
        return
    if ORDER[other] >= ORDER[own]:
        yield f"{target}: {own} stands below {other} or beside it"
    elif own in NARROW and other not in NARROW[own]:
        yield f"{target}: {own} may import only {', '.join(sorted(NARROW[own]))}"


def foreign_faults(module: str, own: str, target: str) -> Iterator[str]:
    top = target.partition(".")[0]
    if own in PURE and top in IMPURE:
        yield f"{target}: {own} is pure"
    if top in sys.stdlib_module_names or top in ("scheduler_core", *EDGES):
        return
    if top not in THIRD_PARTY:
        yield f"{target}: not in the table of third-party packages"
    elif not any(fnmatchcase(module, pattern) for pattern in THIRD_PARTY[top]):
        yield f"{target}: only for {', '.join(THIRD_PARTY[top])}"


def test_imports_keep_the_layers() -> None:
    faults = [f"{module} imports {fault}" for module in MODULES for fault in import_faults(module)]
    assert not faults, "\n".join(faults)


def import_faults(module: str) -> Iterator[str]:
    own = part_of(module)
    if own is None:
        assert module == "scheduler_core", f"{module} has no place in the table"
        return
    for target in sorted(set(imports(module, MODULES[module]))):
        yield from layer_faults(own, target)
        yield from foreign_faults(module, own, target)


def test_unit_tests_keep_the_layers_too() -> None:
    """A part's tests import what the part may import, TESTS_ALSO, and the support of tests."""
    folder = ROOT / "tests" / "unit"
    faults = [
        f"{path.relative_to(ROOT)} imports {fault}"
        for path in sorted(folder.rglob("*.py"))
        if (own := part_of_tests(path.relative_to(folder).parts[0])) is not None
        for fault in unit_test_faults(path, own)
    ]
    assert not faults, "\n".join(faults)


def part_of_tests(top: str) -> str | None:
    """The part that a folder or a file of tests/unit is about; None for tools and support of tests."""
    name = top.removeprefix("test_").removesuffix(".py")
    return next((part for part in (name, CORE + name) if part in ORDER), None)


def unit_test_faults(path: Path, own: str) -> Iterator[str]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for target in sorted(set(imports(module, path))):
        if target.startswith("tests.unit."):
            if part_of_tests(target.split(".")[2]) != own:
                yield f"{target}: it is of the tests of another part"
        elif part_of(target) not in TESTS_ALSO.get(own, ()):
            yield from layer_faults(own, target)


def test_what_tests_of_a_part_may_not_import_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    path = tmp_path / "test_queue.py"
    path.write_text(
        "import sandbox.replay\nimport scheduler_core.controllers\nimport scheduler_core.state\n"
        "from tests.unit.state.test_nodes import node\nfrom tests.unit.engine.test_pod_cycle import pod\n"
    )
    assert [fault.partition(":")[0] for fault in unit_test_faults(path, CORE + "engine")] == [
        "sandbox.replay",
        "tests.unit.state.test_nodes.node",
    ]


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m.startswith(CORE + "plugins.") and m != CORE + "plugins.registry"]
)
def test_plugins_do_not_know_each_other(module: str) -> None:
    """The registry lists them; names that begin with an underscore are arithmetic that several share."""
    prefix = CORE + "plugins."
    known = {
        t.removeprefix(prefix).partition(".")[0] for t in imports(module, MODULES[module]) if prefix in t
    }
    assert {name for name in known if not name.startswith("_")} == set()


@pytest.mark.parametrize(
    ("module", "target"),
    [
        (CORE + "model.pod", CORE + "quota.ledger"),
        (CORE + "quota.ledger", CORE + "topology.tree"),
        (CORE + "kube.client", CORE + "state.cluster"),
        ("webhook.http.admission_review", CORE + "engine.scheduler"),
        ("sandbox.store.object_store", "kubectl_plugin.render"),
        (CORE + "state.nodes", "time"),
        (CORE + "model.pod", "numpy"),
        ("webhook.http.admission_review", "kubernetes.client"),
        ("webhook.http.server", "cryptography.x509"),
        (CORE + "app.loop", "requests"),
    ],
)
def test_the_table_refuses(module: str, target: str) -> None:
    own = part_of(module)
    assert own is not None
    assert [*layer_faults(own, target), *foreign_faults(module, own, target)]
