"""Tokens to a syntax tree, macros expanded on the way.

Recursive descent, one method a precedence level, written as generators (see :mod:`allotment.cel.recursion`),
so that depth costs memory and not stack. Depth is still limited, to upstream's 250: brackets and arguments
count one each, and so does every link of a chain of operators or selections, because each nests the tree one
deeper. ``&&`` and ``||`` chains are flat calls of any number of arguments.

A node's position is that of its operator: the dot of ``a.b``, the bracket of ``f(x)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from allotment.cel import ast
from allotment.cel.ast import Expr
from allotment.cel.declare import Macro, MacroError
from allotment.cel.errors import CelSyntaxError, Issue, SourceText
from allotment.cel.lexer import Lexeme, TokenKind, tokenize
from allotment.cel.recursion import Recursive, run
from allotment.cel.values import INT_MAX

MAX_EXPRESSION_DEPTH = 250

# fmt: off
RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let",
    "loop", "package", "namespace", "null", "return", "true", "var", "void", "while",
})
# fmt: on
_RELATIONS = {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"}
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_LITERALS = {TokenKind.INT, TokenKind.UINT, TokenKind.DOUBLE, TokenKind.STRING, TokenKind.BYTES}
_BEGINNINGS = frozenset({"[", "{", "(", ".", "-", "!", "true", "false", "null"})
_OPERAND = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
"""What may begin an operand, as Kubernetes' messages list it."""
_MOST_PASSED_OVER = 30


class Macros:
    """Macros by name, style and number of arguments."""

    def __init__(self, macros: Iterable[Macro]) -> None:
        self._by_key = {(m.name, m.receiver, m.arity): m for m in macros}

    def find(self, name: str, receiver: bool, arity: int) -> Macro | None:
        exact = self._by_key.get((name, receiver, arity))
        return exact if exact is not None else self._by_key.get((name, receiver, None))


@dataclass(frozen=True, slots=True)
class Syntax:
    """A parsed expression and the first id that is free in it."""

    source: SourceText
    expr: Expr


def parse(text: str, macros: Macros, optional_syntax: bool = True) -> Syntax:
    """Raises :class:`CelSyntaxError` with the first fault."""
    source = SourceText(text)
    parser = _Parser(source, macros, optional_syntax)
    return Syntax(source, run(parser.whole()))


class _Parser:
    def __init__(self, source: SourceText, macros: Macros, optional_syntax: bool) -> None:
        self.source = source
        self.tokens = tokenize(source)
        self.at = 0
        self.depth = 0
        self.macros = macros
        self.optional_syntax = optional_syntax
        self.make = ast.Factory()
        self.issues: list[Issue] = []  # of what was passed over

    # --- tokens

    @property
    def token(self) -> Lexeme:
        return self.tokens[self.at]

    def next(self) -> Lexeme:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def sees(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind is TokenKind.OPERATOR

    def accept(self, text: str) -> Lexeme | None:
        return self.next() if self.sees(text) else None

    def expect(self, text: str) -> Lexeme:
        if not self.sees(text):
            self.fail(f"mismatched input '{self.token.text}' expecting '{text}'")
        return self.next()

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        where = self.token.position if position is None else position
        self.error(where, f"Syntax error: {message}")

    def error(self, position: int, message: str) -> NoReturn:
        raise CelSyntaxError([*self.issues, self.source.issue(position, message)])

    def pass_over(self) -> None:
        """Skips a token that begins no operand, if an operand follows, to find further faults."""
        stray, behind = self.token, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        goes_on = behind is not stray and (
            behind.kind in _LITERALS or behind.kind is TokenKind.IDENTIFIER or behind.text in _BEGINNINGS
        )
        negated = self.at > 0 and self.tokens[self.at - 1].text == "!"
        word = "extraneous" if goes_on or negated else "mismatched"
        message = f"{word} input '{stray.text}' expecting {_OPERAND}"
        if not goes_on:
            self.fail(message)
        self.note(stray.position, f"Syntax error: {message}")
        self.next()

    def note(self, position: int, message: str) -> None:
        """Records a fault after which parsing can continue, unless there are too many."""
        if len(self.issues) >= _MOST_PASSED_OVER:
            self.error(position, message)
        self.issues.append(self.source.issue(position, message))

    def deepen(self, links: int = 1) -> None:
        if self.depth + links > MAX_EXPRESSION_DEPTH:
            self.error(self.token.position, f"expression recursion limit exceeded: {MAX_EXPRESSION_DEPTH}")

    def optional_mark(self) -> bool:
        mark = self.accept("?")
        if mark is not None and not self.optional_syntax:
            self.error(mark.position, "unsupported syntax '?'")
        return mark is not None

    # --- levels of precedence, loosest first

    def whole(self) -> Recursive[Expr]:
        expr: Expr = yield self.expression()
        if self.token.kind is not TokenKind.END:
            last = self.tokens[self.at + 1].kind is TokenKind.END
            self.fail(f"{'extraneous' if last else 'mismatched'} input '{self.token.text}' expecting <EOF>")
        if self.issues:
            raise CelSyntaxError(self.issues)
        return expr

    def expression(self) -> Recursive[Expr]:
        """``c ? a : b`` nests to the right: a loop collects the tests, another folds them up."""
        self.depth += 1
        self.deepen(0)
        tests: list[tuple[int, int, Expr, Expr]] = []
        value: Expr = yield self.disjunction()
        while (mark := self.accept("?")) is not None:
            self.deepen(len(tests))
            call_id = self.make.fresh()
            chosen = yield self.disjunction()
            self.expect(":")
            tests.append((call_id, mark.position, value, chosen))
            value = yield self.disjunction()
        for call_id, position, test, chosen in reversed(tests):
            value = ast.FunctionCall(call_id, position, "_?_:_", None, [test, chosen, value])
        self.depth -= 1
        return value

    def disjunction(self) -> Recursive[Expr]:
        return self.logical("||", "_||_")

    def logical(self, operator: str, function: str) -> Recursive[Expr]:
        inner = self.relation if operator == "&&" else lambda: self.logical("&&", "_&&_")
        first: Expr = yield inner()
        terms = [first]
        position = self.token.position
        while self.accept(operator):
            terms.append((yield inner()))
        if len(terms) == 1:
            return first
        return ast.FunctionCall(self.make.fresh(), position, function, None, terms)

    def relation(self) -> Recursive[Expr]:
        left: Expr = yield self.sum()
        links = 0
        while self.token.kind is TokenKind.OPERATOR and self.token.text in _RELATIONS:
            links += 1
            self.deepen(links)
            operator = self.next()
            call_id = self.make.fresh()
            right = yield self.sum()
            left = ast.FunctionCall(
                call_id, operator.position, _RELATIONS[operator.text], None, [left, right]
            )
        return left

    def sum(self) -> Recursive[Expr]:
        left: Expr = yield self.product()
        links = 0
        while self.token.kind is TokenKind.OPERATOR and self.token.text in _SUMS:
            links += 1
            self.deepen(links)
            operator = self.next()
            call_id = self.make.fresh()
            right = yield self.product()
            left = ast.FunctionCall(call_id, operator.position, _SUMS[operator.text], None, [left, right])
        return left

    def product(self) -> Recursive[Expr]:
        left: Expr = yield self.unary()
        links = 0
        while self.token.kind is TokenKind.OPERATOR and self.token.text in _PRODUCTS:
            links += 1
            self.deepen(links)
            operator = self.next()
            call_id = self.make.fresh()
            right = yield self.unary()
            left = ast.FunctionCall(call_id, operator.position, _PRODUCTS[operator.text], None, [left, right])
        return left

    def unary(self) -> Recursive[Expr]:
        """A run of ``!`` or of ``-`` counts by parity; one ``-`` before a number belongs to the number."""
        mark = self.token
        count = 0
        if self.sees("!") or self.sees("-"):
            while self.accept(mark.text):
                count += 1
        signed = count == 1 and mark.text == "-" and self.token.kind in (TokenKind.INT, TokenKind.DOUBLE)
        call_id = self.make.fresh()
        operand: Expr = yield self.member(mark if signed else None)
        if signed or count % 2 == 0:
            return operand
        return ast.FunctionCall(call_id, mark.position, "!_" if mark.text == "!" else "-_", None, [operand])

    def member(self, negative: Lexeme | None = None) -> Recursive[Expr]:
        if negative is not None:
            expr: Expr = self.number(negative)
        else:
            expr = yield self.primary()
        links = 0
        while self.sees(".") or self.sees("["):
            links += 1
            self.deepen(links)
            mark = self.next()
            if mark.text == "[":
                expr = yield self.index(expr, mark)
            else:
                expr = yield self.selection(expr, mark)
        return expr

    # --- links of a chain

    def index(self, operand: Expr, mark: Lexeme) -> Recursive[Expr]:
        function = "_[?_]" if self.optional_mark() else "_[_]"
        call_id = self.make.fresh()
        index = yield self.expression()
        self.expect("]")
        return ast.FunctionCall(call_id, mark.position, function, None, [operand, index])

    def selection(self, operand: Expr, dot: Lexeme) -> Recursive[Expr]:
        optional = self.optional_mark()
        name = self.next()
        if name.kind is TokenKind.ESCAPED:
            field = str(name.value)
        elif name.kind is TokenKind.IDENTIFIER:
            field = name.text
        else:
            self.fail(f"mismatched input '{name.text}' expecting IDENTIFIER", name.position)
        if optional:
            label = ast.Literal(self.make.fresh(), name.position, field)
            return ast.FunctionCall(self.make.fresh(), dot.position, "_?._", None, [operand, label])
        opening = self.token
        if name.kind is TokenKind.IDENTIFIER and self.accept("("):
            call_id = self.make.fresh()
            args = yield self.arguments(")")
            return self.call(call_id, opening.position, field, operand, args)
        return ast.Select(self.make.fresh(), dot.position, operand, field)

    def arguments(self, closing: str) -> Recursive[list[Expr]]:
        args: list[Expr] = []
        if self.accept(closing):
            return args
        while True:
            args.append((yield self.expression()))
            if not self.accept(","):
                break
        self.expect(closing)
        return args

    def call(self, call_id: int, position: int, function: str, target: Expr | None, args: list[Expr]) -> Expr:
        macro = self.macros.find(function, target is not None, len(args))
        if macro is not None:
            self.make.position = position
            try:
                expanded = macro.expand(self.make, target, args)
            except MacroError as exc:
                self.error(exc.expr.position, exc.message)
            if expanded is not None:
                return expanded
        return ast.FunctionCall(call_id, position, function, target, args)

    # --- primaries

    def primary(self) -> Recursive[Expr]:
        token = self.token
        if token.kind in _LITERALS or (
            token.kind is TokenKind.OPERATOR and token.text in ("true", "false", "null")
        ):
            return self.number(None) if token.kind is TokenKind.INT else self.constant()
        if token.kind is TokenKind.IDENTIFIER or self.sees("."):
            inner = self.name()
        elif self.sees("("):
            inner = self.parenthesized()
        elif self.sees("["):
            inner = self.list()
        elif self.sees("{"):
            inner = self.map()
        else:
            self.pass_over()
            inner = self.unary()
        expr: Expr = yield inner
        return expr

    def parenthesized(self) -> Recursive[Expr]:
        self.next()
        inner: Expr = yield self.expression()
        self.expect(")")
        return inner

    def constant(self) -> Expr:
        token = self.next()
        if token.kind is TokenKind.DOUBLE and token.value in (float("inf"), float("-inf")):
            self.error(token.position, "invalid double literal")
        return ast.Literal(self.make.fresh(), token.position, token.value)

    def number(self, minus: Lexeme | None) -> Expr:
        token = self.token
        if minus is None and token.value > INT_MAX:
            self.error(token.position, "invalid int literal")
        literal = self.constant()
        assert isinstance(literal, ast.Literal)
        if minus is not None:
            literal.value = -literal.value
            literal.position = minus.position
        return literal

    def name(self) -> Recursive[Expr]:
        dot = self.accept(".")
        token = self.next()
        if token.kind is not TokenKind.IDENTIFIER:
            self.fail(f"mismatched input '{token.text}' expecting IDENTIFIER", token.position)
        name = ("." if dot else "") + token.text
        if self.sees("{") or self.starts_object():
            built: Expr = yield self.object(name)
            return built
        reserved, position = token.text in RESERVED, dot.position if dot else token.position
        if reserved:
            self.note(position, f"reserved identifier: {token.text}")
        opening = self.token
        if self.accept("("):
            call_id = self.make.fresh()
            args = yield self.arguments(")")
            if not reserved:
                return self.call(call_id, opening.position, name, None, args)
        if reserved:  # not a name, so macros refuse it
            return ast.Literal(self.make.fresh(), position, None)
        return ast.Ident(self.make.fresh(), token.position, name)

    def starts_object(self) -> bool:
        """Whether ``.name`` pairs and then a brace follow: ``pkg.Type{…}``."""
        at = self.at
        while self.tokens[at].text == "." and self.tokens[at + 1].kind is TokenKind.IDENTIFIER:
            at += 2
        return at > self.at and self.tokens[at].text == "{"

    def list(self) -> Recursive[Expr]:
        opening = self.next()
        list_id = self.make.fresh()
        elements: list[Expr] = []
        optional: set[int] = set()
        while not self.sees("]"):
            if elements and self.accept(",") is None:
                self.expect(",")
            if elements and self.sees("]"):
                break
            if self.optional_mark():
                optional.add(len(elements))
            elements.append((yield self.expression()))
        if not elements:
            self.accept(",")
        self.expect("]")
        return ast.ListExpr(list_id, opening.position, elements, frozenset(optional))

    def map(self) -> Recursive[Expr]:
        opening = self.next()
        map_id = self.make.fresh()
        entries: list[ast.MapEntry] = []
        while not self.sees("}"):
            if entries:
                self.expect(",")
                if self.sees("}"):
                    break
            optional = self.optional_mark()
            key = yield self.expression()
            colon = self.expect(":")
            entry_id = self.make.fresh()
            value = yield self.expression()
            entries.append(ast.MapEntry(entry_id, colon.position, key, value, optional))
        self.expect("}")
        return ast.MapExpr(map_id, opening.position, entries)

    def object(self, name: str) -> Recursive[Expr]:
        while self.accept("."):
            name += "." + self.next().text
        opening = self.expect("{")
        object_id = self.make.fresh()
        fields: list[ast.FieldEntry] = []
        while not self.sees("}"):
            if fields:
                self.expect(",")
                if self.sees("}"):
                    break
            optional = self.optional_mark()
            field = self.next()
            if field.kind not in (TokenKind.IDENTIFIER, TokenKind.ESCAPED):
                self.fail(f"mismatched input '{field.text}' expecting IDENTIFIER", field.position)
            colon = self.expect(":")
            value = yield self.expression()
            label = field.value if field.kind is TokenKind.ESCAPED else field.text
            fields.append(ast.FieldEntry(self.make.fresh(), colon.position, label, value, optional))
        self.expect("}")
        return ast.ObjectExpr(object_id, opening.position, name, fields)
