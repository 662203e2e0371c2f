"""Results of scenarios as JUnit XML, which CI systems show: a test case per expectation."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scheduler_core.model.printable import visible


def junit(results: Sequence[Mapping[str, Any]], problems: Sequence[str]) -> str:
    """XML with a test suite per scenario; `problems` are errors of files, in a suite of their own.

    A step without expectations is one test case, as it was played.
    """
    suites = [_suite(result["name"], _cases(result)) for result in results]
    if problems:
        suites.append(_suite("files", [_case("files", text, "error", text) for text in problems]))
    root = ET.Element("testsuites", _totals(suites))
    root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _suite(name: str, cases: Sequence[ET.Element]) -> ET.Element:
    counts = {
        "tests": len(cases),
        "failures": sum(case.find("failure") is not None for case in cases),
        "errors": sum(case.find("error") is not None for case in cases),
    }
    texts = {key: str(value) for key, value in counts.items()}
    suite = ET.Element("testsuite", {"name": visible(name), **texts})
    suite.extend(cases)
    return suite


def _totals(suites: Sequence[ET.Element]) -> dict[str, str]:
    keys = ("tests", "failures", "errors")
    return {key: str(sum(int(suite.get(key, "0")) for suite in suites)) for key in keys}


def _cases(result: Mapping[str, Any]) -> list[ET.Element]:
    place = f"{result['file']}: {result['name']}"
    return [case for step in result["steps"] for case in _of_step(place, step)]


def _of_step(place: str, step: Mapping[str, Any]) -> Iterator[ET.Element]:
    of_step = f"step {step['step']}"
    for outcome in step.get("expectations", ()):
        yield _case(place, f"{of_step}: {outcome['expectation']}", "failure", *outcome["mismatches"])
    if not step.get("expectations"):
        yield _case(place, of_step, "failure")


def _case(place: str, name: str, kind: str, *problems: str) -> ET.Element:
    case = ET.Element("testcase", {"classname": visible(place), "name": visible(name)})
    if problems:
        text = visible("; ".join(problems))
        ET.SubElement(case, kind, {"message": text}).text = text
    return case
