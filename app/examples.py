"""Prompts to begin with, one of each kind. The first is the page's own: pressing Run on it shows the idea."""

from __future__ import annotations

EDIT = """Rename the class Basket to Cart. Write the whole class.

```python
class Basket:
    def __init__(self):
        self.items = []

    def add(self, name, price):
        self.items.append((name, price))
```"""

CODE = "Write a Python function that returns the n-th Fibonacci number with a loop, with a docstring and an example."

STRUCTURED = """Turn this into a JSON list of objects with the keys "name", "age" and "city":

Ada is 36 and lives in London. Grace is 45 and lives in New York. Alan is 41 and lives in Manchester.
Edsger is 52 and lives in Austin. Barbara is 39 and lives in Boston."""

CHAT = "I have a free Saturday and it is going to rain. What could I do at home with two children?"

PROSE = "Write the opening paragraph of a story about a lighthouse keeper who finds a letter in a bottle."

SUMMARY = """Summarise the text in three sentences.

The tide pool is a small world with hard rules. Twice a day the sea comes in and fills it with cold water, food and
visitors; twice a day the sea leaves, and what stayed behind has to endure the sun. Mussels close their shells and
keep a sip of water inside. Limpets press themselves against the rock so tightly that no air comes in. The hermit
crab walks from puddle to puddle in a borrowed shell. Those who live high on the rock are seldom eaten but often
dry; those who live low are seldom dry but often eaten. Between the two, every animal has found the line that it
can bear, and so the rock is painted in bands: black lichen, grey barnacles, blue mussels, brown weed."""

EXAMPLES = (
    ("Edit code", EDIT),
    ("Write code", CODE),
    ("JSON", STRUCTURED),
    ("Summarise", SUMMARY),
    ("Chat", CHAT),
    ("Prose", PROSE),
)
