"""Faults that `mutants.py` sets into a module: where they can stand, and the module with one of them.

A fault is a small change of the syntax tree: a comparison that is off by one, a statement that is missing, a
condition that always holds. Places where a change cannot matter are left out: docstrings, annotations, the
text of messages, class options, `assert`, types of arrays, numbers that tune (a module's constants), the end
of a name (`del a`), and words to the collector of memory (`gc.freeze()`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

_SHIFTED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {
    pair[i]: pair[1 - i]
    for pair in (("any", "all"), ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"))
    for i in (0, 1)
}
# What no result depends on: how arrays are stored and made, names of threads, checks of equal length.
_UNSEEN_KEYWORDS = {"dtype", "copy", "strict", "count", "daemon", "name"}
_LOGGERS = {"log", "logger", "logging", "LOG", "_log", "warnings"}
# When memory is looked through, and how: a cost.
_COLLECTOR = {"gc"}
# Raised where the code itself is broken, never for what comes from outside.
_IMPOSSIBLE = {"AssertionError", "NotImplementedError", "RuntimeError", "LedgerError"}
_EMPTY: dict[str, ast.expr] = {
    "bool": ast.Constant(False),
    "int": ast.Constant(0),
    "list": ast.List([], ast.Load()),
    "dict": ast.Dict([], []),
    "tuple": ast.Tuple([], ast.Load()),
    "set": ast.Call(ast.Name("set", ast.Load()), [], []),
}


@dataclass(frozen=True)
class Fault:
    """The `index`-th fault of a module: where, of which kind, and what stands there before and after."""

    index: int
    kind: str
    first: int
    last: int
    before: str
    after: str


@dataclass(frozen=True)
class _Change:
    """`node` stands in `field` of `parent`, in lists at `position`; `new` replaces it."""

    kind: str
    parent: ast.AST
    field: str
    position: int | None
    node: ast.AST
    new: ast.AST

    def apply(self) -> None:
        ast.fix_missing_locations(ast.copy_location(self.new, self.node))
        if self.position is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.position] = self.new


def faults(source: str) -> list[Fault]:
    """Every fault that can be set into a module, in the order of its text."""
    return [
        Fault(index, change.kind, *_lines(change.node), _text(change.node), _text(change.new))
        for index, change in enumerate(_changes(ast.parse(source)))
    ]


def compiled(source: str, path: str, index: int) -> CodeType:
    """The module with its `index`-th fault."""
    tree = ast.parse(source)
    for number, change in enumerate(_changes(tree)):
        if number == index:
            change.apply()
            return compile(tree, path, "exec", dont_inherit=True)
    raise IndexError(index)


def _lines(node: ast.AST) -> tuple[int, int]:
    """First and last line of what runs when the fault is reached: of a compound statement only its head."""
    first = node.lineno  # type: ignore[attr-defined]
    if isinstance(node, ast.If | ast.While | ast.For):
        head = node.iter if isinstance(node, ast.For) else node.test
        return first, head.end_lineno or first
    return first, node.end_lineno or first  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.ExceptHandler):
        return f"except {ast.unparse(node.type) if node.type else ''}: {_text(node.body[0])}"
    if isinstance(node, ast.If | ast.While):
        return f"{type(node).__name__.lower()} {ast.unparse(node.test)}:"
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else text[:97] + "..."


def _changes(tree: ast.Module) -> Iterator[_Change]:
    yield from _Walk().body(tree, tree.body, None)


class _Walk:
    """Goes through a module and yields its changes; `function` is the one that the walk is in."""

    def body(
        self,
        parent: ast.AST,
        statements: list[ast.stmt],
        function: ast.FunctionDef | None,
        field: str = "body",
    ) -> Iterator[_Change]:
        for position, statement in enumerate(statements):
            last = function is not None and parent is function and position == len(statements) - 1
            for kind, new in _statement(statement, function, last):
                yield _Change(kind, parent, field, position, statement, new)
            yield from self._inside(statement, function)

    def _inside(self, statement: ast.stmt, function: ast.FunctionDef | None) -> Iterator[_Change]:
        if _left_out(statement, function):
            return
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            assert isinstance(statement, ast.FunctionDef), "no coroutine is under test"
            yield from self._children(statement.args, function)
            yield from self.body(statement, statement.body, statement)
            return
        if isinstance(statement, ast.ClassDef):
            yield from self.body(statement, statement.body, None)
            return
        for field, value in ast.iter_fields(statement):
            if field in ("annotation", "target") and isinstance(statement, ast.AnnAssign):
                continue
            if field in ("body", "orelse", "finalbody"):
                yield from self.body(statement, value, function, field)
            elif field == "handlers":
                for position, handler in enumerate(value):
                    if not _raises(handler.body):
                        gone = ast.ExceptHandler(handler.type, handler.name, [ast.Raise()])
                        yield _Change("handler gone", statement, field, position, handler, gone)
                    yield from self.body(handler, handler.body, function)
            else:
                yield from self._field(statement, field, value, function)

    def _children(self, node: ast.AST, function: ast.FunctionDef | None) -> Iterator[_Change]:
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns"):
                yield from self._field(node, field, value, function)

    def _field(
        self, parent: ast.AST, field: str, value: object, function: ast.FunctionDef | None
    ) -> Iterator[_Change]:
        listed = value if isinstance(value, list) else [value]
        for number, node in enumerate(listed):
            if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
                continue
            if isinstance(node, ast.keyword) and node.arg in _UNSEEN_KEYWORDS:
                continue
            position = number if isinstance(value, list) else None
            if isinstance(node, ast.expr):
                for kind, new in _expression(node):
                    yield _Change(kind, parent, field, position, node, new)
            yield from self._children(node, function)


def _left_out(statement: ast.stmt, function: ast.FunctionDef | None) -> bool:
    """Statements in which no place for a fault is looked for."""
    if isinstance(statement, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) or _logs(statement.value)
    if isinstance(statement, ast.If):
        return "TYPE_CHECKING" in ast.unparse(statement.test) or _impossible(statement)
    if isinstance(statement, ast.ClassDef):
        return any(
            ast.unparse(base).partition("[")[0] in ("Protocol", "TypedDict") for base in statement.bases
        )
    if isinstance(statement, ast.FunctionDef):
        return statement.name == "__repr__"
    if function is None and isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        tuning = isinstance(statement.value, ast.Constant | ast.BinOp)
        return any(name.startswith("__") or (name.isupper() and tuning) for name in names)
    return False


def _statement(
    statement: ast.stmt, function: ast.FunctionDef | None, last: bool
) -> Iterator[tuple[str, ast.stmt]]:
    if _left_out(statement, function):
        return
    gone = ast.Pass()
    match statement:
        case ast.Expr(value=ast.Call() as call) if function is not None and not _logs(call):
            yield "call gone", gone
        case ast.Assign(targets=targets) if function is not None and _optional(targets, statement, function):
            yield "assignment gone", gone
        case ast.AugAssign(op=op):
            yield "assignment gone", gone
            if type(op) in _ARITHMETIC and not _is_text(statement.value):
                new = _ARITHMETIC[type(op)]()
                yield "arithmetic", ast.AugAssign(statement.target, new, statement.value)
        case ast.Delete(targets=targets) if not all(isinstance(target, ast.Name) for target in targets):
            yield "deletion gone", gone
        case ast.If():
            for value in (True, False):
                yield "condition", ast.If(ast.Constant(value), statement.body, statement.orelse)
        case ast.While():
            yield "condition", ast.While(ast.Constant(False), statement.body, statement.orelse)
        case ast.Return() if function is not None:
            if not last:
                yield "early return gone", gone
            yield from (("result", ast.Return(new)) for new in _results(statement, function))
        case ast.Continue():
            yield "continue gone", gone
        case ast.Break():
            yield "break gone", gone


def _expression(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.Compare(ops=[op]):
            if type(op) in _SHIFTED:
                yield "off by one", ast.Compare(node.left, [_SHIFTED[type(op)]()], node.comparators)
            yield "comparison", ast.Compare(node.left, [_OPPOSITE[type(op)]()], node.comparators)
        case ast.Compare(ops=ops):
            for number, op in enumerate(ops):
                if type(op) in _SHIFTED:
                    new = [*ops[:number], _SHIFTED[type(op)](), *ops[number + 1 :]]
                    yield "off by one", ast.Compare(node.left, new, node.comparators)
        case ast.BoolOp(op=op, values=values):
            yield "and/or", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
            for number in range(len(values)):
                rest = [*values[:number], *values[number + 1 :]]
                yield "operand gone", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield "sign or not gone", operand
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
            if not (_is_text(left) or _is_text(right)):
                yield "arithmetic", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(value=bool() as value):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield "constant", ast.Constant(value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield "condition", body
            yield "condition", orelse
        case ast.Call():
            yield from _call(node)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            yield from _comprehension(node)


def _call(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    function, arguments, keywords = node.func, node.args, node.keywords
    if isinstance(function, ast.Name) and function.id in _NAMES:
        yield "function", ast.Call(ast.Name(_NAMES[function.id], ast.Load()), arguments, keywords)
    if isinstance(function, ast.Attribute) and function.attr in _NAMES:
        yield (
            "function",
            ast.Call(ast.Attribute(function.value, _NAMES[function.attr], ast.Load()), arguments, keywords),
        )
    for number, keyword in enumerate(keywords):
        if keyword.arg is not None and keyword.arg not in _UNSEEN_KEYWORDS and not _is_text(keyword.value):
            rest = [*keywords[:number], *keywords[number + 1 :]]
            yield "argument gone", ast.Call(function, arguments, rest)


def _comprehension(
    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
) -> Iterator[tuple[str, ast.expr]]:
    for number, part in enumerate(node.generators):
        for condition in part.ifs:
            ifs = [other for other in part.ifs if other is not condition]
            without = ast.comprehension(part.target, part.iter, ifs, part.is_async)
            generators = [*node.generators[:number], without, *node.generators[number + 1 :]]
            if isinstance(node, ast.DictComp):
                yield "condition gone", ast.DictComp(node.key, node.value, generators)
            else:
                yield "condition gone", type(node)(node.elt, generators)


def _results(statement: ast.Return, function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Other results of the type that the function says it has; None where it has none that is simple."""
    value, said = statement.value, function.returns
    if value is None or said is None or isinstance(value, ast.Constant):
        return
    text = ast.unparse(said)
    found: list[ast.expr] = []
    if text == "bool":
        found = [ast.Constant(True), ast.Constant(False)]
    elif text.endswith("| None"):
        found = [ast.Constant(None)]
    elif (empty := _EMPTY.get(text.partition("[")[0].lower())) is not None:
        found = [empty]
    yield from (new for new in found if ast.unparse(new) != ast.unparse(value))


def _optional(targets: list[ast.expr], statement: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether names stay bound without an assignment: a fault, and not a NameError."""
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if len(names) < len(targets):
        return not any(isinstance(target, ast.Tuple) for target in targets) and function.name != "__init__"
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    earlier = {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.lineno < statement.lineno
    }
    return all(name in arguments or name in earlier for name in names)


def _logs(node: ast.expr) -> bool:
    """Whether it is a line of a log, or a word to the collector of memory."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    base = node.func.value
    return (isinstance(base, ast.Name) and base.id in _LOGGERS | _COLLECTOR) or (
        isinstance(base, ast.Attribute) and base.attr in _LOGGERS
    )


def _impossible(statement: ast.If) -> bool:
    """`if` whose only purpose is to raise what broken code alone can cause."""
    only = statement.body[0] if len(statement.body) == 1 and not statement.orelse else None
    if not isinstance(only, ast.Raise) or only.exc is None:
        return False
    error = only.exc.func if isinstance(only.exc, ast.Call) else only.exc
    return ast.unparse(error) in _IMPOSSIBLE


def _raises(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
