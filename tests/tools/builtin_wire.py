"""Write `sandbox/api/builtin_wire.json`: the protobuf field numbers of built-in kinds that clients may send.

    python tests/tools/builtin_wire.py MODULES

reads the tags of the Go structs in the modules k8s.io/api, k8s.io/apimachinery,
k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, of the release that the sandbox follows, under
MODULES (for example `$(go env GOMODCACHE)/k8s.io`). A field is `[JSON name, flags, type]`. Flags: `*` pointer
(a zero is a value), `!` shown even when zero, `[` list, `{` a map of strings, `^` inlined. Types: `s` text,
`b` bytes, `i` integer, `t` boolean, `d` floating point, `JSON` any value, `Schema...` a schema or something
else, otherwise the name of a message.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from sandbox.kinds.builtin_types import RELEASE

TARGET = Path(__file__).parents[2] / "sandbox" / "api" / "builtin_wire.json"
TYPES = TARGET.parents[1] / "kinds" / "builtin_types.json"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
EXTRA_ROOTS = (f"{META}DeleteOptions",)
SPECIAL = {
    "resource.Quantity": "Quantity",
    "intstr.IntOrString": "IntOrString",
    "metav1.Time": "Time",
    "metav1.MicroTime": "MicroTime",
    "Time": "Time",
    "MicroTime": "MicroTime",
    "runtime.RawExtension": "RawExtension",
    "FieldsV1": "RawExtension",
    "JSON": "JSON",
    "JSONSchemaPropsOrArray": "SchemaOrSchemas",
    "JSONSchemaPropsOrBool": "SchemaOrBool",
    "JSONSchemaPropsOrStringArray": "SchemaOrNames",
}
_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\}$|$(.*?)^\}$)", re.M | re.S)
_NAMED = re.compile(r"^type (\w+) (?!struct)(\S+)$", re.M)
_FIELD = re.compile(r'^\s*(?:(\w+) )?\s*(\S+)\s+`.*?json:"([^"]*)".*?protobuf:"(\w+),(\d+),(\w+)', re.M)
_IMPORT = re.compile(r'^\s*(\w+)?\s*"(k8s\.io/(?:api|apimachinery|apiextensions-apiserver)/[^"]+)"', re.M)
Wire = list[str]


class Package:
    """The structs and named types of one Go package."""

    def __init__(self, modules: Path, path: str) -> None:
        module, _, inner = path.removeprefix("k8s.io/").partition("/")
        folder = modules / f"{module}@v0.{RELEASE.partition('.')[2]}" / inner
        text = "\n".join(
            file.read_text()
            for file in sorted(folder.glob("*.go"))
            if "_test" not in file.name and "zz_" not in file.name
        )
        self.prefix = path.replace("k8s.io/", "io.k8s.").replace("/", ".") + "."
        self.structs = dict(_STRUCT.findall(text))
        self.named = dict(_NAMED.findall(text))
        self.imports = {alias or where.rpartition("/")[2]: where for alias, where in _IMPORT.findall(text)}


class Reader:
    """Follows types from package to package."""

    def __init__(self, modules: Path) -> None:
        self._modules = modules
        self._packages: dict[str, Package] = {}
        self.messages: dict[str, dict[str, Wire]] = {}

    def package(self, path: str) -> Package:
        if path not in self._packages:
            self._packages[path] = Package(self._modules, path)
        return self._packages[path]

    def read(self, name: str) -> None:
        """Take a message and everything it contains into the table."""
        if name in self.messages:
            return
        path, _, short = name.rpartition(".")
        package = self.package("k8s.io/" + path.removeprefix("io.k8s.").replace(".", "/"))
        if short not in package.structs:
            return
        fields = self.messages[name] = {}
        for go_name, go_type, tag, wire, number, _ in _FIELD.findall(package.structs[short]):
            json_name, _, options = tag.partition(",")
            flags, kind = self._kind(package, go_type, wire)
            flags += "^" if "inline" in options or not (json_name or go_name) else ""
            flags += "" if "omitempty" in options else "!"
            fields[number] = [json_name, flags, kind]

    def _kind(self, package: Package, go_type: str, wire: str) -> tuple[str, str]:
        flags = "*" if go_type.startswith("*") else ""
        go_type = go_type.lstrip("*")
        package, go_type = self._resolved(package, go_type)
        if go_type.startswith("map["):
            return "{", self._item(package, go_type.partition("]")[2], "bytes")
        if go_type == "[]byte":
            return flags, "b"
        if go_type.startswith("[]"):
            return "[", self._item(package, go_type[2:], wire)
        return flags, self._item(package, go_type, wire)

    def _resolved(self, package: Package, go_type: str) -> tuple[Package, str]:
        """What a named type stands for (`v1.ResourceList` is a map), and the package that says so."""
        alias, dot, short = go_type.rpartition(".")
        home = self.package(package.imports[alias]) if dot and alias in package.imports else package
        return (home, home.named[short]) if short in home.named else (package, go_type)

    def _item(self, package: Package, go_type: str, wire: str) -> str:
        go_type = go_type.lstrip("*")
        if go_type in SPECIAL:
            return SPECIAL[go_type]
        if go_type == "[]byte":
            return "b"
        # Tags of schemas say "bytes" for everything; the generated code goes by the Go type.
        if go_type == "bool":
            return "t"
        if wire == "varint" or go_type in ("int", "int32", "int64"):
            return "i"
        if wire.startswith("fixed") or go_type == "float64":
            return "d"
        alias, dot, short = go_type.rpartition(".")
        home = self.package(package.imports[alias]) if dot and alias in package.imports else package
        if short in home.structs:
            self.read(home.prefix + short)
            return home.prefix + short
        return "s"


def main() -> None:
    """Read the Go sources and write the table."""
    reader = Reader(Path(sys.argv[1]))
    kinds = json.loads(TYPES.read_text())["kinds"]
    for name in [*kinds.values(), *EXTRA_ROOTS]:
        reader.read(name)
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in sorted(reader.messages.items())]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
