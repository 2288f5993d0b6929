"""The expression language: parse, check, cost, compile."""
