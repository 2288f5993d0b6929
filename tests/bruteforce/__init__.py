"""A dumb allocator and an independent checker of answers: oracles for small problems that need no Go.

    pools.py       which pools a node reaches         capacity.py    what a share takes
    constraint.py  match and distinct                 search.py      try everything, in upstream's order
    results.py     picks as AllocationResults         checker.py     is an answer valid at all
    quantity.py    quantities as fractions

Neither imports the package under test: expressions are evaluated by a callable that the caller hands in.
"""

from tests.bruteforce.checker import check_answer
from tests.bruteforce.pools import Fatal, Json
from tests.bruteforce.results import TooManyTerms, results
from tests.bruteforce.search import ALL_FEATURES, Evaluate, Exhausted, ExpressionError, Search

__all__ = ["ALL_FEATURES", "Evaluate", "ExpressionError", "allocate", "check_answer"]


def allocate(problem: Json, evaluate: Evaluate, most_steps: int = 100_000) -> Json:
    """The answer to a problem in the form of ``allot allocate --ndjson``; ``exhausted`` where the steps ran out.

    Consumed capacities are written exactly but not canonically.
    """
    search = Search(problem, evaluate, most_steps)
    answer: Json = {"name": problem.get("name", ""), "ok": False, "error": "", "results": []}
    try:
        picks = search.run()
        if picks is not None:
            answer |= {"ok": True, "results": results(search, picks)}
    except Fatal as error:
        answer["error"] = str(error)
    except TooManyTerms:
        answer["error"] = "a node selector with several terms"
    except Exhausted:
        answer["exhausted"] = True
    return answer | {"steps": search.steps}
