"""The code of archives: classes and functions as text, into Python's syntax trees for the compiler that serves scripts.

Enters: the text of a member such as `code/__torch__/a/b.py`. Leaves: a `Member`: its imports, classes and functions,
whose bodies are `ast` nodes. Nothing is evaluated: a tree names ops, attributes and other members. Places are offsets
into the text (line 1, column = offset), which is how `Definition` reads them back.
Refuses: text that is no such code, nesting beyond `DEEPEST`, with file and line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from ..source import Source
from .code_lexer import CodeTokens
from .lexer import Token, unquoted

DEEPEST = 100            # brackets and blocks in each other
_LONGEST_NUMBER = 400
_Tree = TypeVar("_Tree", bound=ast.AST)
_BINARY: dict[str, tuple[int, type]] = {       # how tightly each binds
    "|": (0, ast.BitOr), "^": (1, ast.BitXor), "&": (2, ast.BitAnd), "<<": (3, ast.LShift), ">>": (3, ast.RShift),
    "+": (4, ast.Add), "-": (4, ast.Sub), "*": (5, ast.Mult), "/": (5, ast.Div), "//": (5, ast.FloorDiv),
    "%": (5, ast.Mod), "@": (5, ast.MatMult),
}
_COMPARE: dict[str, type] = {"==": ast.Eq, "!=": ast.NotEq, "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE,
                             "in": ast.In, "is": ast.Is}
_WORDS = {"None": None, "True": True, "False": False}
_LOAD, _STORE = ast.Load(), ast.Store()


class ClassText(NamedTuple):
    """A class as its text has it."""

    name: str
    base: str                                  # Module, NamedTuple, Enum, Interface, ModuleInterface or nothing
    lists: dict[str, list[str]]                # __parameters__, __buffers__, hooks
    attributes: list[tuple[str, ast.expr, ast.expr | None]]     # name, type, value
    members: list[tuple[str, ast.expr]]        # of an Enum
    methods: list[ast.FunctionDef]
    start: int


class Member(NamedTuple):
    """One file of code."""

    source: Source
    imports: list[str]
    classes: dict[str, ClassText]
    functions: dict[str, ast.FunctionDef]


class _Expressions:
    """Expressions, loosest binding first."""

    words: CodeTokens
    depth = 0

    def place(self, tree: _Tree, start: Token) -> _Tree:
        """A tree with the place it was read from."""
        tree.lineno = tree.end_lineno = 1  # type: ignore[attr-defined]
        tree.col_offset = start.start  # type: ignore[attr-defined]
        tree.end_col_offset = self.words.words[self.words.at - 1].end  # type: ignore[attr-defined]
        return tree

    def nested(self, read: Callable[[], Any]) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            self.words.refuse(f"code is nested more than {DEEPEST} deep")
        found = read()
        self.depth -= 1
        return found

    def expression(self) -> ast.expr:
        return self.nested(self._ternary)

    def row(self) -> ast.expr:
        """One expression, or several with commas between, a tuple."""
        start = self.words.now
        first = self.expression()
        if not self.words.is_(","):
            return first
        parts = [first]
        while self.words.take_if(","):
            if self.words.is_("=", ")") or self.words.now.kind == "newline":
                break
            parts.append(self.expression())
        return self.place(ast.Tuple(parts, _LOAD), start)

    def _ternary(self) -> ast.expr:
        start = self.words.now
        body = self._either()
        if not self.words.take_if("if"):
            return body
        test = self._either()
        self.words.expect("else")
        return self.place(ast.IfExp(test, body, self.expression()), start)

    def _either(self) -> ast.expr:
        return self._joined("or", ast.Or, self._both)

    def _both(self) -> ast.expr:
        return self._joined("and", ast.And, self._not)

    def _joined(self, word: str, op: type, inner: Callable[[], ast.expr]) -> ast.expr:
        start, parts = self.words.now, [inner()]
        while self.words.take_if(word):
            parts.append(inner())
        return parts[0] if len(parts) == 1 else self.place(ast.BoolOp(op(), parts), start)

    def _not(self) -> ast.expr:
        start = self.words.now
        if self.words.take_if("not"):
            return self.place(ast.UnaryOp(ast.Not(), self.nested(self._not)), start)
        return self._compared()

    def _compared(self) -> ast.expr:
        start, left = self.words.now, self._binary(0)
        ops, others = [], []
        while self.words.is_(*_COMPARE) or (self.words.is_("not") and self.words.ahead().text == "in"):
            ops.append(self._comparison())
            others.append(self._binary(0))
        return self.place(ast.Compare(left, ops, others), start) if ops else left

    def _comparison(self) -> ast.cmpop:
        word = self.words.take().text
        if word == "not":
            self.words.expect("in")
            return ast.NotIn()
        if word == "is" and self.words.take_if("not"):
            return ast.IsNot()
        return _COMPARE[word]()

    def _binary(self, level: int) -> ast.expr:
        start, left = self.words.now, self._unary()
        while self.words.now.kind == "mark" and self.words.now.text in _BINARY:
            binds, op = _BINARY[self.words.now.text]
            if binds < level:
                break
            self.words.take()
            right = self._binary(binds + 1)
            left = self.place(self._complex(left, op, right) or ast.BinOp(left, op(), right), start)
        return left

    def _complex(self, left: ast.expr, op: type, right: ast.expr) -> ast.expr | None:
        """`1.+2.j` is one number."""
        if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
            return None
        if type(left.value) is not float or type(right.value) is not complex:
            return None
        signs = {ast.Add: 1, ast.Sub: -1}
        return ast.Constant(complex(left.value, signs[op] * right.value.imag)) if op in signs else None

    def _unary(self) -> ast.expr:
        start = self.words.now
        if self.words.take_if("-"):
            inner = self.nested(self._unary)
            if isinstance(inner, ast.Constant) and type(inner.value) in (int, float, complex):
                return self.place(ast.Constant(-inner.value), start)  # type: ignore[operator]
            return self.place(ast.UnaryOp(ast.USub(), inner), start)
        if self.words.take_if("~"):
            return self.place(ast.UnaryOp(ast.Invert(), self.nested(self._unary)), start)
        return self._power()

    def _power(self) -> ast.expr:
        start, left = self.words.now, self._postfix()
        if not self.words.take_if("**"):
            return left
        return self.place(ast.BinOp(left, ast.Pow(), self.nested(self._unary)), start)

    def _postfix(self) -> ast.expr:
        words, start = self.words, self.words.now
        tree = self._atom()
        while words.now.kind == "mark":
            if words.take_if("."):
                tree = ast.Attribute(tree, words.expect_kind("ident").text, _LOAD)
            elif words.take_if("("):
                tree = self.nested(lambda called=tree: self._call(called))
            elif words.take_if("["):
                tree = self.nested(lambda held=tree: self._subscript(held))
            else:
                break
            self.place(tree, start)
        return tree

    def _call(self, called: ast.expr) -> ast.expr:
        args: list[ast.expr] = []
        keywords: list[ast.keyword] = []
        words = self.words
        while not words.take_if(")"):
            start = words.now
            if words.now.kind == "ident" and words.ahead().text == "=":
                name = words.take().text
                words.take()
                keywords.append(self.place(ast.keyword(name, self.expression()), start))
            elif words.take_if("*"):
                args.append(self.place(ast.Starred(self.expression(), _LOAD), start))
            else:
                args.append(self.expression())
            if not words.is_(")"):
                words.expect(",")
        return ast.Call(called, args, keywords)

    def _subscript(self, held: ast.expr) -> ast.expr:
        start = self.words.now
        parts = [self._slice()]
        is_row = False
        while self.words.take_if(","):
            is_row = True
            if self.words.is_("]"):
                break
            parts.append(self._slice())
        inside = self.place(ast.Tuple(parts, _LOAD), start) if is_row else parts[0]
        self.words.expect("]")
        return ast.Subscript(held, inside, _LOAD)

    def _slice(self) -> ast.expr:
        words, start = self.words, self.words.now
        bounds: list[ast.expr | None] = [None]
        if not words.is_(":"):
            bounds[0] = self.expression()
            if not words.is_(":"):
                return bounds[0]
        while words.take_if(":") and len(bounds) < 3:
            bounds.append(None if words.is_(":", "]", ",") else self.expression())
        bounds += [None] * (3 - len(bounds))
        return self.place(ast.Slice(*bounds), start)

    # --- atoms
    def _atom(self) -> ast.expr:
        words, start = self.words, self.words.now
        if start.kind == "ident":
            words.take()
            if start.text in _WORDS:
                return self.place(ast.Constant(_WORDS[start.text]), start)
            return self.place(ast.Name(start.text, _LOAD), start)
        if start.kind == "number":
            words.take()
            return self.place(ast.Constant(self._number(start)), start)
        if start.kind == "string":
            text = unquoted(words.take().text)
            while words.now.kind == "string":
                text += unquoted(words.take().text)
            return self.place(ast.Constant(text), start)
        inside = {"(": self._parenthesis, "[": self._list, "{": self._dict}.get(start.text)
        if inside is None:
            words.refuse(f"expected an expression but found '{start.text or start.kind}' here")
        words.take()
        return self.place(self.nested(inside), start)

    def _number(self, word: Token) -> complex:
        text = word.text
        if len(text) > _LONGEST_NUMBER:
            self.words.refuse("a number of too many digits", word.start, word.end)
        if text.endswith("j"):
            return complex(0, float(text[:-1]))
        return int(text) if text.isdigit() else float(text)

    def _items(self, end: str) -> tuple[list[ast.expr], bool]:
        """Expressions up to a bracket, and whether a comma stood behind one."""
        parts, comma = [], False
        while not self.words.take_if(end):
            if parts and not comma:
                self.words.expect(",")
            parts.append(self.expression())
            comma = self.words.take_if(",")
        return parts, comma

    def _parenthesis(self) -> ast.expr:
        parts, comma = self._items(")")
        return parts[0] if len(parts) == 1 and not comma else ast.Tuple(parts, _LOAD)

    def _list(self) -> ast.expr:
        return ast.List(self._items("]")[0], _LOAD)

    def _dict(self) -> ast.expr:
        keys: list[ast.expr | None] = []
        values: list[ast.expr] = []
        words = self.words
        while not words.take_if("}"):
            keys.append(self.expression())
            words.expect(":")
            values.append(self.expression())
            if not words.is_("}"):
                words.expect(",")
        return ast.Dict(keys, values)


class CodeReader(_Expressions):
    """Reads one member."""

    def __init__(self, text: str, source: Source) -> None:
        self.source = source
        self.words = CodeTokens(text, source)

    def member(self) -> Member:
        """The whole text."""
        words = self.words
        found = Member(self.source, [], {}, {})
        while words.now.kind != "eof":
            start = words.now
            if words.take_if("import"):
                found.imports.append(self._dotted())
                self._line_end()
            elif words.is_("class"):
                made = self._class()
                self._new_name(made.name, found, start)
                found.classes[made.name] = made
            elif words.is_("def"):
                function = self.function()
                self._new_name(function.name, found, start)
                found.functions[function.name] = function
            elif words.is_("op_version_set"):         # oldest archives say their version here
                words.take(), words.expect("="), words.expect_kind("number"), self._line_end()
            else:
                words.refuse("expected a class, a function or an import here")
        return found

    def _new_name(self, name: str, member: Member, start: Token) -> None:
        if name in member.classes or name in member.functions:
            self.words.refuse(f"'{name}' is defined twice", start.start, start.end)

    def _dotted(self) -> str:
        name = self.words.expect_kind("ident").text
        while self.words.take_if("."):
            name += "." + self.words.expect_kind("ident").text
        return name

    def _line_end(self) -> None:
        if not self.words.take_if(";"):
            self.words.expect_kind("newline")

    # --- classes
    def _class(self) -> ClassText:
        words, start = self.words, self.words.expect("class")
        name, base = words.expect_kind("ident").text, ""
        if words.take_if("("):
            base = self._dotted() if not words.is_(")") else ""
            words.expect(")")
        made = ClassText(name, base, {}, [], [], [], start.start)
        self._block(lambda: self._class_line(made))
        return made

    def _block(self, line: Callable[[], Any]) -> None:
        """What follows a colon: lines further in, each read by `line`."""
        words = self.words
        words.expect(":")
        words.expect_kind("newline")
        words.expect_kind("indent")
        while words.now.kind != "dedent":
            if words.now.kind == "eof":
                words.refuse("the text ends inside a block")
            self.nested(line)
        words.take()

    def _class_line(self, made: ClassText) -> None:
        words = self.words
        if words.is_("def"):
            made.methods.append(self.function())
            return
        if words.take_if("pass"):
            self._line_end()
            return
        start = words.expect_kind("ident")
        if words.take_if(":"):
            kind = self.expression()
            made.attributes.append((start.text, kind, self.expression() if words.take_if("=") else None))
        elif words.take_if("["):
            key = unquoted(words.expect_kind("string").text)
            words.expect("]"), words.expect("=")
            if start.text != "__annotations__":
                words.refuse("expected __annotations__ here", start.start, start.end)
            made.attributes.append((key, self.expression(), None))
        else:
            words.expect("=")
            self._assigned(made, start.text, self.expression(), start)
        self._line_end()

    def _assigned(self, made: ClassText, name: str, value: ast.expr, start: Token) -> None:
        if made.base == "Enum":
            made.members.append((name, value))
        elif isinstance(value, ast.List) and all(
                isinstance(item, ast.Constant) and isinstance(item.value, str) for item in value.elts):
            made.lists[name] = [item.value for item in value.elts]  # type: ignore[attr-defined]
        else:
            self.words.refuse(f"'{name}' of a class must be a list of names", start.start, start.end)

    # --- functions
    def function(self) -> ast.FunctionDef:
        words, start = self.words, self.words.expect("def")
        name = words.expect_kind("ident").text
        words.expect("(")
        args = self._parameters()
        returns = self.expression() if words.take_if("->") else None
        body: list[ast.stmt] = []
        self.nested(lambda: self._block(lambda: body.append(self.statement())))
        made = ast.FunctionDef(name=name, args=args, body=body, decorator_list=[], returns=returns, type_comment=None)
        return self.place(made, start)

    def _parameters(self) -> ast.arguments:
        words = self.words
        found = ast.arguments([], [], None, [], [], None, [])
        while not words.take_if(")"):
            start = words.now
            if words.take_if("*"):
                words.refuse("a function of an archive has no parameters by name only", start.start, start.end)
            name = words.expect_kind("ident").text
            kind = self.expression() if words.take_if(":") else None
            found.args.append(self.place(ast.arg(name, kind), start))
            if words.take_if("="):
                found.defaults.append(self.expression())
            elif found.defaults:
                words.refuse(f"parameter '{name}' without a default follows one that has one", start.start, start.end)
            if not words.is_(")"):
                words.expect(",")
        return found

    # --- statements
    def statement(self) -> ast.stmt:
        words, start = self.words, self.words.now
        read = {"if": self._if, "while": self._while, "for": self._for, "with": self._with, "def": self.function}.get(
            start.text) if start.kind == "ident" else None
        if read is not None:
            return read()
        made = self._simple(start)
        self.place(made, start)
        if words.now.kind != "newline":
            words.refuse(f"expected the end of the line but found '{words.now.text or words.now.kind}' here")
        words.take()
        return made

    def _simple(self, start: Token) -> ast.stmt:
        words = self.words
        if start.kind == "ident" and start.text in ("return", "pass", "break", "continue", "assert", "raise", "del"):
            words.take()
            return self._by_word(start.text)
        target = self.row()
        if words.take_if(":"):
            kind = self.expression()
            value = self.row() if words.take_if("=") else None
            return ast.AnnAssign(_stored(target), kind, value, 1)  # type: ignore[arg-type]
        if not words.is_("="):
            return ast.Expr(target)
        targets = []
        while words.take_if("="):
            targets.append(_stored(target))
            target = self.row()
        return ast.Assign(targets, target, None)

    def _by_word(self, word: str) -> ast.stmt:
        is_end = self.words.now.kind == "newline"
        if word == "return":
            return ast.Return(None if is_end else self.row())
        if word == "raise":
            return ast.Raise(None if is_end else self.expression(), None)
        if word == "assert":
            test = self.expression()
            return ast.Assert(test, self.expression() if self.words.take_if(",") else None)
        if word == "del":
            return ast.Delete([self.expression()])
        return {"pass": ast.Pass, "break": ast.Break, "continue": ast.Continue}[word]()

    def body(self) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        self._block(lambda: found.append(self.statement()))
        return found

    def _if(self) -> ast.stmt:
        start = self.words.take()
        test = self.expression()
        body, other = self.body(), []
        if self.words.is_("elif"):
            other = [self.nested(self._if)]
        elif self.words.take_if("else"):
            other = self.body()
        return self.place(ast.If(test, body, other), start)

    def _while(self) -> ast.stmt:
        start = self.words.take()
        test = self.expression()
        return self.place(ast.While(test, self.body(), []), start)

    def _for(self) -> ast.stmt:
        start = self.words.take()
        first = self.words.now
        targets = [self._postfix()]
        while self.words.take_if(","):
            targets.append(self._postfix())
        target = targets[0] if len(targets) == 1 else self.place(ast.Tuple(targets, _STORE), first)
        self.words.expect("in")
        walked = self.expression()
        return self.place(ast.For(_stored(target), walked, self.body(), [], None), start)

    def _with(self) -> ast.stmt:
        start = self.words.take()
        items = []
        while True:
            held = self.expression()
            items.append(ast.withitem(held, _stored(self._postfix()) if self.words.take_if("as") else None))
            if not self.words.take_if(","):
                break
        return self.place(ast.With(items, self.body(), None), start)


def _stored(target: ast.expr) -> ast.expr:
    """A tree in the place of a target."""
    target.ctx = _STORE  # type: ignore[attr-defined]
    return target


def read_code(text: str, source: Source) -> Member:
    """The classes and functions of one member."""
    reader = CodeReader(text, source)
    try:
        return reader.member()
    except RecursionError:
        reader.words.refuse("code is nested too deep")
