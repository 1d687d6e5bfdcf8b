#!/usr/bin/python3
"""Expressions and clustershell's answers to them, for nodeset_oracle.t: SEED COUNT EXPRESSIONS ANSWERS

Writes COUNT expressions to one file and "folded<TAB>names" or "error" for each to the other.
"""
import random
import sys

from ClusterShell.NodeSet import NodeSet, NodeSetException

STEMS = ["a", "b", "gpu", "n", "r1n", "x-", "login"]
JOINTS = ["b", "-ib", "c", ".x", "s"]
OPERATORS = [",", ",", ",", "!", "&", "^"]


def number(rng, width, top):
    return str(rng.randint(0, top)).zfill(width)


def one_range(rng, width, top):
    first = rng.randint(0, top)
    if rng.random() < 0.35:
        return str(first).zfill(width)
    last = min(first + rng.randint(0, 9), max(top, first))
    if width and len(str(last)) > width:
        last = first
    text = str(first).zfill(width) + "-" + str(last).zfill(width)
    if rng.random() < 0.25:
        text += "/" + str(rng.randint(1, 4))
    return text


def dimension(rng, top):
    width = rng.choice([0, 0, 0, 2, 3])
    if rng.random() < 0.3:
        return number(rng, width, top)
    ranges = []
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.1:
            width = rng.choice([0, 2, 3])
        ranges.append(one_range(rng, width, top))
    return "[" + ",".join(ranges) + "]"


def operand(rng, stems, dims, top):
    text = rng.choice(stems)
    for i in range(dims):
        text += dimension(rng, top)
        if i + 1 < dims:
            text += JOINTS[i]
    if rng.random() < 0.15:
        text += rng.choice(["-ib0", ".lan", "x"])
    return text


def expression(rng):
    stems = rng.sample(STEMS, rng.randint(1, 2))
    dims = rng.choice([0, 1, 1, 1, 1, 2, 2, 3])
    top = rng.choice([5, 12, 110]) if dims < 2 else rng.choice([3, 5, 11])
    text = operand(rng, stems, dims, top)
    for _ in range(rng.randint(0, 4)):
        if rng.random() < 0.1:
            dims = rng.choice([0, 1, 2])
        text += rng.choice(OPERATORS) + operand(rng, stems, dims, top)
    return text


def damaged(rng, text):
    at = rng.randrange(len(text))
    kind = rng.random()
    if kind < 0.4:
        return text[:at] + text[at + 1:]
    if kind < 0.8:
        return text[:at] + rng.choice("[]-,/!&^019a") + text[at:]
    return text[:at] + text[at + 1:at + 3][::-1] + text[at + 3:]


def answer(text):
    try:
        nodes = NodeSet(text)
        return str(nodes) + "\t" + " ".join(nodes)
    except (NodeSetException, ValueError):  # some wrong ranges end in a plain ValueError
        return "error"


def main():
    rng = random.Random(int(sys.argv[1]))
    with open(sys.argv[3], "w") as asked, open(sys.argv[4], "w") as answered:
        for i in range(int(sys.argv[2])):
            text = expression(rng)
            if i % 5 == 4:
                text = damaged(rng, text)
            if not text:
                continue
            asked.write(text + "\n")
            answered.write(answer(text) + "\n")


main()
