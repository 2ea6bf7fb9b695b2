"""Plants mistakes in a machine's side of the index of pages, and sees to it that each breaks its own invariant.

    python3 mutants.py ROOT BUILD [--jobs N] [--only PATTERN]

The driver, tests/plant/planted.py, says what a row is. A mutant's name begins with what docs/POOL.md, "Metadata in
Redis", calls it; it is killed when tests/index/page_index_test.cpp names that one as broken.
"""
from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../plant"))
import planted  # noqa: E402

CASE = "under random faults*"
SOURCE = "dataplane/page_index.cpp"

# name, file, what is there, what is planted, sources to compile
MUTANTS = [
    ("X1 a gap is not heard", SOURCE, "  number_ = std::max(number_, *number);\n  lose_standing();\n",
     "  number_ = std::max(number_, *number);\n", None),
    ("X1 what was told before a gap is not told again", SOURCE, "  cursor_ = 0;\n", "", None),
    ("X1 a page that goes while all is told anew is not withdrawn", SOURCE, "  if (it->second <= cursor_) {\n",
     "  if (it->second <= cursor_ && cursor_ == pages_.rbegin()->first) {\n", None),
    ("X1 a page that comes back while all is told anew is withdrawn after all", SOURCE,
     "    leaving_.pages.erase(it->second);\n", "", None),
    ("X1 a page that goes again was told for the second time", SOURCE,
     "    order = leaving_.pages.at(it->second).order;\n", "    order = next_order_++;\n", None),
    ("X3 all that comes while all is told anew comes first", SOURCE, "    cursor_ = it->first;\n",
     "    cursor_ = next_order_ - 1;\n", None),
    ("X3 what went last is withdrawn first", SOURCE,
     "    const Name& page = leaving_.pages.begin()->second.page;\n",
     "    std::swap(leaving_.pages.begin()->second, leaving_.pages.rbegin()->second);\n"
     "    const Name& page = leaving_.pages.begin()->second.page;\n", None),
    ("X1 a change has no number of its own", SOURCE, "  if (!is_same) ++number_;\n",
     "  if (is_anew_) ++number_;\n", None),
    ("X1 that nothing changes is told as a change", SOURCE, 'is_same ? "same" : "next";', '"next";', None),
    ("X1 pages that are given up are not withdrawn", SOURCE, "  if (it->second <= cursor_) {\n", "  if (false) {\n", None),
    ("X1 where there is no room a machine never comes again", SOURCE,
     "  full_until_ = now + full_pause_;\n", "  full_until_ = now + std::chrono::hours(1000);\n", None),
    ("X1 a second pool's changes have the numbers of the first one's", SOURCE, "number_(settings_.start) {", "number_(0) {",
     None),
    ("X2 who asks may wait for ever", SOURCE, "if (now < it->second.until && (down_.empty() || is_mute())) {",
     "if (down_.empty() || is_mute()) {", None),
    ("X2 a question is answered and found late too", SOURCE, "  finds_.erase(it);\n  return true;\n",
     "  return true;\n", None),
    ("X4 a machine may be named for more than was asked", SOURCE,
     "                                 : take_standing(words, now);\n",
     "                                 : take_standing(words, now);\n"
     "  for (Found& one : found_)\n    for (PageProvider& each : one.providers) each.pages += 4096;\n", None),
]


if __name__ == "__main__":
    sys.exit(planted.main(MUTANTS, "test_index", planted.by_invariant([CASE], 120), jobs=1))
