"""Signatures of CEL functions and methods, for the type checker.

A signature is `target.argument,argument:result`; spaces separate several signatures. `*` is any type, `item`
the type of a list's items, `same` that of the target, `strings` a list of strings.
"""

from __future__ import annotations

from typing import Final

METHODS: Final[dict[str, str]] = {
    "contains": "string.string:bool",
    "startsWith": "string.string:bool",
    "endsWith": "string.string:bool",
    "matches": "string.string:bool",
    "size": "string.:int bytes.:int list.:int map.:int",
    "charAt": "string.int:string",
    "indexOf": "string.string:int string.string,int:int list.*:int",
    "lastIndexOf": "string.string:int string.string,int:int list.*:int",
    "lowerAscii": "string.:string",
    "upperAscii": "string.:string",
    "trim": "string.:string",
    "reverse": "list.:same",
    "sort": "list.:same",
    "distinct": "list.:same",
    "slice": "list.int,int:same",
    "includes": "list.*:bool",
    "replace": "string.string,string:string string.string,string,int:string",
    "split": "string.string:strings string.string,int:strings",
    "substring": "string.int:string string.int,int:string",
    "format": "string.list:string",
    "join": "list.:string list.string:string",
    "find": "string.string:string",
    "findAll": "string.string:strings string.string,int:strings",
    "isSorted": "list.:bool",
    "sum": "list.:item",
    "min": "list.:item",
    "max": "list.:item",
    "isGreaterThan": "quantity.quantity:bool semver.semver:bool",
    "isLessThan": "quantity.quantity:bool semver.semver:bool",
    "compareTo": "quantity.quantity:int semver.semver:int",
    "asInteger": "quantity.:int",
    "isInteger": "quantity.:bool",
    "asApproximateFloat": "quantity.:double",
    "add": "quantity.quantity:quantity quantity.int:quantity",
    "sub": "quantity.quantity:quantity quantity.int:quantity",
    "hasValue": "optional.:bool",
    "value": "optional.:item",
    "orValue": "optional.*:item",
    "or": "optional.optional:any",
    "getScheme": "url.:string",
    "getHost": "url.:string",
    "getHostname": "url.:string",
    "getPort": "url.:string",
    "getEscapedPath": "url.:string",
    "getQuery": "url.:any",
}
"""Methods, which are called on a value."""

FUNCTIONS: Final[dict[str, str]] = {
    "size": "string:int bytes:int list:int map:int",
    "string": "*:string",
    "int": "*:int",
    "double": "*:double",
    "bool": "*:bool",
    "bytes": "*:bytes",
    "uint": "*:any",
    "dyn": "*:dyn",
    "type": "*:type",
    "timestamp": "string:timestamp int:timestamp timestamp:timestamp",
    "duration": "string:duration int:duration duration:duration",
    "quantity": "string:quantity",
    "isQuantity": "string:bool",
    "url": "string:url",
    "isURL": "string:bool",
    "sign": "quantity:int",
    "ip": "string:any",
    "isIP": "string:bool",
    "cidr": "string:any",
    "isCIDR": "string:bool",
    "semver": "string:semver string,bool:semver",
    "isSemver": "string:bool string,bool:bool",
}
"""Functions without a target."""

UNFOLLOWED: Final = frozenset(
    {
        *("getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours"),
        *("getMilliseconds", "getMinutes", "getMonth", "getSeconds"),
        *("family", "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast"),
        *("isGlobalUnicast", "containsIP", "containsCIDR", "ip", "masked", "prefixLength"),
        *("validate", "major", "minor", "patch", "optMap", "optFlatMap"),
        *("transformList", "transformMap", "transformMapEntry"),
    }
)
"""Methods of Kubernetes' CEL libraries without known types and costs."""

LIBRARIES: Final = frozenset(["sets", "optional", "ip", "format", "jsonpatch", "strings"])
"""Namespaces of functions: `sets.contains(a, b)`."""

TYPE_NAMES: Final = frozenset(
    {"bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type"}
)
"""Types as values: `type(self.x) == string`."""
