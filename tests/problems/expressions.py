"""stub"""

import random
from typing import Any


def random_question(rng: random.Random) -> dict[str, Any]:
    return {}
