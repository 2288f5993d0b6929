"""``cel.bind(name, value, expression)``: a name for a value inside one expression."""

from allotment.cel.declare import Library
from allotment.cel.macros import BINDINGS

LIBRARY = Library("bindings", macros=BINDINGS)
