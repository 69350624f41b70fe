"""Prompts of six kinds, written for this project; what the tests on the real model and the benchmarks run on."""

from __future__ import annotations

KINDS: dict[str, list[str]] = {
    "code": [
        "Write a Python function that returns the n-th Fibonacci number without recursion.",
        "Write a JavaScript function that groups a list of orders by customer name.",
        "Show a SQL query that lists the five customers who spent most last year.",
        "Write a shell script that renames every .jpeg file in a folder to .jpg.",
    ],
    "edit": [
        "Rename the variable `total` to `sum_of_prices` and return only the code:\n\n"
        "def price(items):\n    total = 0\n    for item in items:\n        total = total + item.price\n"
        "    total = total * 1.2\n    return total\n",
        "Add type hints to this function and return the whole function:\n\n"
        "def area(width, height):\n    if width < 0 or height < 0:\n        raise ValueError('negative size')\n"
        "    return width * height\n",
        "Correct the spelling and repeat the text: The libary is open on Wensday, and the libary is closed on Sunday.",
        "Replace every tab by four spaces and repeat the list:\n\tbread\n\tmilk\n\teggs\n\tapples\n\tcheese\n",
    ],
    "structure": [
        "List the planets of the solar system as JSON objects with the keys name and position.",
        "Write an HTML table with three rows and the columns City, Country and Population.",
        "Write the days of the week as a YAML list, each with the keys day and number.",
        "Make a CSV of four fruits with their colour and price.",
    ],
    "summary": [
        "Summarise in one sentence: The harbour was built in 1850 to ship coal. When the mine closed in 1962 the "
        "harbour fell silent for thirty years. Today sailing boats lie where the coal ships lay, and the old weighing "
        "house is a museum of the harbour and the mine.",
        "What is the main point of this text? Bees find their way by the sun. On cloudy days they use the pattern of "
        "light in the sky. When both fail they follow landmarks they have learned on earlier flights.",
        "Give the text a title and repeat its first sentence: The bridge was closed on Monday because of strong wind. "
        "Buses took another way, and the ferry ran every ten minutes until the evening.",
        "Answer from the text only. Who repaired the clock? Text: The clock in the tower stopped in March. The town "
        "asked a clockmaker, Anna Reed, who repaired the clock in two weeks.",
    ],
    "chat": [
        "What should I look at when I buy a used bicycle?",
        "Explain to a ten-year-old why the sky is blue.",
        "How do I keep basil alive on a windowsill?",
        "What is the difference between weather and climate?",
    ],
    "prose": [
        "Write a short story about a lighthouse keeper who finds a letter.",
        "Describe a market in the early morning.",
        "Write four lines of verse about the first snow.",
        "Write the beginning of a letter from a sailor to his sister.",
    ],
}

ALL = [prompt for prompts in KINDS.values() for prompt in prompts]
