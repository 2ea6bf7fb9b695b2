"""Plants mistakes in the pool's pure parts, one at a time, and sees to it that each breaks its own invariant.

    python3 mutants.py ROOT BUILD [--jobs N] [--only PATTERN]

The driver, tests/plant/planted.py, says what a row is. A mutant's name begins with an invariant of docs/POOL.md; it is killed
when the tests name that one as broken.
"""
from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../plant"))
import planted  # noqa: E402

# The cases that look at invariants, up to their first comma: those of one process's pages, and of several processes'.
CASES = ["whatever sequences do*,where keys meet in their first word*,whatever tenants do*,whatever is written*,under random schedules*,a key depends on*",
         "whatever processes do*", "whatever machines publish*"]
TABLE = ["dataplane/page_table.cpp"]  # what uses the private parts of page_table.h

# name, file, what is there, what is planted, sources to compile
MUTANTS = [
    ("K1 a page that is used may be given up", "dataplane/page_table.h",
     "pages_[page].references > 0 || pages_[page].children > 0;", "pages_[page].children > 0;", TABLE),
    ("K1 a page is free while one still uses it", "dataplane/page_table.cpp",
     "if (--state.references > 0) return;", "if (--state.references > 1) return;", None),
    ("K1 a page is written by others when it is given away", "dataplane/page_puller.cpp",
     "event.place = std::move(pull.places[event.pages]);", "event.place = pull.places[event.pages];", None),
    ("K2 a key is taken for another that begins alike", "dataplane/page_table.cpp",
     "return page != KeyTable::none && pages_[page].key == key ? page : no_page;",
     "return page != KeyTable::none ? page : no_page;", None),
    ("K2 a pulled page's bytes are not checked", "dataplane/page_puller.cpp",
     "  if (copy_with_crc32c(page.content, place->data()) != page.head.crc32c) {\n",
     "  if (copy_with_crc32c(page.content, place->data()) == 0 && false) {\n", None),
    ("K2 what was read where it stands is not verified", "dataplane/page_puller_reads.cpp",
     "  } else if (!*is_whole) {\n", "  } else if (false) {\n", None),
    ("K3 a page that is given up keeps its generation", "dataplane/page_table.cpp",
     ".generation = state.generation + 1};", ".generation = state.generation};", None),
    ("K3 a restart gives numbers of segments again", "dataplane/segment_index.cpp",
     "  next_.number = std::max(next_.number, number);\n", "", None),
    ("K4 what the disk refused is there", "dataplane/segment_index.cpp", "  if (written) {\n",
     "  if (written || page.slot > 0) {\n", None),
    ("K6 who is gone is waited for", "dataplane/page_puller.cpp",
     "    else if (was_asked && pull.finds.empty() && !pull.is_fetching)\n      ended.push_back(id);\n", "", None),
    ("K6 what who is gone was owed stays", "dataplane/page_server.cpp", "  peers_.erase(peer);\n", "", None),
    ("K7 a page that nobody uses is lost", "dataplane/page_table.cpp",
     "  ++state.generation;\n  free_.push_back(page);\n", "  ++state.generation;\n", None),
    ("K7 bytes of a removed segment count", "dataplane/segment_index.cpp", "  bytes_ -= it->second.bytes;\n",
     "", None),
    ("K8 a pull waits for ever for a page", "dataplane/page_puller.cpp", "if (finds || pulls) late.push_back(id);",
     "if (finds) late.push_back(id);", None),
    ("K9 what is published is written on", "dataplane/page_table.h",
     "return pages_[page].references > 1 || pages_[page].is_published;", "return pages_[page].references > 1;", TABLE),
    ("K9 what others share is written on", "dataplane/page_table.h",
     "return pages_[page].references > 1 || pages_[page].is_published;", "return pages_[page].is_published;", TABLE),
    ("K10 a page goes before those that follow it", "dataplane/page_table.h",
     "pages_[page].references > 0 || pages_[page].children > 0;", "pages_[page].references > 0;", TABLE),
    ("K11 a fragment that is copied loses its last row", "dataplane/page_table.cpp",
     "{sequence.pages_[at], to, used}", "{sequence.pages_[at], to, used - 1}", None),
    ("K11 a fork is cut to whole pages", "dataplane/page_table.cpp",
     "sequence.pages_.begin() + pages_for(sequence.rows_));",
     "sequence.pages_.begin() + sequence.rows_ / rows_per_page_);", None),
    ("K12 of two records of a page the older counts", "dataplane/segment_index.cpp",
     "head.generation > record.head.generation) continue;", "head.generation < record.head.generation) continue;", None),
    ("K13 a copy begins with what was in its page", "dataplane/page_table.cpp",
     "    if (used > 0) copies.push_back({sequence.pages_[at], to, used});\n", "", None),
    ("K13 tenants have the same keys", "dataplane/page_key.cpp", "{&scope.tenant, &scope.model,", "{&scope.model,", None),
    ("K14 a record without its end counts", "dataplane/segment_scan.cpp",
     "if (check.state == RecordState::whole) whole_", "if (check.state != RecordState::empty) whole_", None),
    ("K15 a sequence that goes leaves a page behind", "dataplane/page_table.cpp",
     "  for (; !sequence.pages_.empty(); sequence.pages_.pop_back()) unrefer",
     "  for (; sequence.pages_.size() > 1; sequence.pages_.pop_back()) unrefer", None),
    ("K15 a fork counts twice", "dataplane/page_table.cpp",
     "for (const Page page : copy.pages_) refer(page);",
     "for (const Page page : copy.pages_) {\n    refer(page);\n    refer(page);\n  }", None),
    ("K1 a page that was exchanged is used on by its process", "dataplane/page_client.cpp",
     "    sequence.pages_[sequence.published_ + i] = done->pages[i];\n", "", None),
    ("K6 a process that died keeps its sequences", "dataplane/page_manager.cpp",
     "  if (clients_.erase(client) == 0) return;\n", "  clients_.at(client).offers.clear();\n", None),
    ("K6 who gave its pages to a process that died waits on", "dataplane/page_manager.cpp",
     "  if (clients_.erase(client) == 0) return;\n", "  clients_.erase(client);\n  return;\n", None),
    ("K9 who is given pages writes those that others see", "dataplane/page_manager.cpp",
     "    return table_.references(page) == 1 && !table_.is_published(page);\n", "    return !table_.is_published(page);\n", None),
    ("K15 what is reserved in pages that are given stays with nobody", "dataplane/page_manager.cpp",
     "  it->second.sequence = std::move(**found);\n", "  it->second.sequence = table_.fork(**found);\n", None),
    ("K9 a process writes on in what it has forked", "dataplane/page_client.cpp",
     "  share(sequence, pages);\n  made.pages_", "  made.pages_", None),
    ("K11 what a process copies may be given away before", "dataplane/page_manager.cpp",
     "  if (!room.copies.empty()) client.copied_from.push_back(std::move(from));\n", "", None),
    ("K13 a process does not copy what it is told to", "dataplane/page_client.cpp",
     "  copies.insert(copies.end(), room->copies.begin(), room->copies.end());\n", "", None),
    ("K15 what a process has copied is held for ever", "dataplane/page_manager.cpp",
     "  it->second.copied_from.clear();  // it made its copies before it asked again\n", "", None),
    ("K15 an offer that is withdrawn is there still", "dataplane/page_manager.cpp",
     "  client.offers.erase(withdraw.token);\n", "", None),
    ("K16 a page that a region has not is read", "dataplane/page_puller_reads.cpp",
     " || place.page >= pages)", ")", None),
    ("K17 a tenant's own cache stays where it may have no more", "dataplane/page_table.cpp",
     "  while (tenants_.is_over(tenant, count)) {", "  while (false) {", None),
    ("K17 pages in the cache do not count", "dataplane/page_tenants.h",
     "tenants_[tenant].pages + more > *quota_", "tenants_[tenant].held() + more > *quota_", TABLE),
    ("K17 what is published for a tenant may be too much", "dataplane/page_table.cpp",
     "  if (!make_own_room(1, tenant)) return false;\n", "", None),
    ("K17 what follows a tenant's page is nobody's", "dataplane/page_table.cpp",
     "of_before != no_tenant ? of_before : sequence.tenant_;", "sequence.tenant_;", None),
    ("K17 a page that is given back counts on", "dataplane/page_table.cpp",
     "  if (tenants_.are_known()) tenants_.give(page);\n  ++state.generation;\n", "  ++state.generation;\n", None),
    ("K18 a tenant is refused for its own cache", "dataplane/page_tenants.h",
     "tenants_[tenant].held() + more <= *quota_", "tenants_[tenant].pages + more <= *quota_", TABLE),
    ("K18 a tenant at its quota takes others' cache", "dataplane/page_table.cpp",
     "  if (free_pages() < count) catch_up();\n  while (free_pages() < count) {\n",
     "  if (free_pages() < count + 1) catch_up();\n  while (free_pages() < count + 1 && cached_ > 0) {\n", None),
    ("N1 strangers are told", "dataplane/page_news.cpp", "{ followers_.erase(peer); }", "{ static_cast<void>(peer); }", None),
    ("N2 who has not read is told more", "dataplane/page_news.cpp", "  follower.waits = false;\n", "", None),
    ("N3 a run jumps from chain to chain", "dataplane/page_preloads.cpp", " || page.parent != run->keys.back())", ")", None),
    ("N3 what follows a page that is not here is pulled", "dataplane/page_preloads.cpp",
     "} else if (page.parent == PageKey{} || has(page.parent)) {", "} else if (true) {", None),
    ("N4 what is here is pulled", "dataplane/page_preloads.cpp", "} else if (has(page.key)) {", "} else if (false) {", None),
    ("N5 what a lost machine has told is forgotten", "dataplane/page_preloads.cpp",
     "  counts_.missed += peer.queue.size();\n", "", None),
    ("N5 a run that ends early is forgotten", "dataplane/page_preloads.cpp", "  counts_.missed += run_.value_or(0);\n", "", None),
    ("N6 what does not fit a message is left out", "dataplane/page_news.cpp", "    told.last = it->number;\n",
     "    told.last = next_ - 1;\n", None),
    ("N6 what comes has an old number", "dataplane/page_news.cpp", "pages_.push_back({next_++, page, told});",
     "pages_.push_back({next_, page, told});", None),
    ("N7 preloads take all that tasks have used", "dataplane/page_preloads.cpp",
     "  if (left <= 0 && refusals_ < tries_after) {\n", "  if (false) {\n", None),
    ("K16 the region of an earlier life is read", "dataplane/page_puller_reads.cpp",
     "region.incarnation == it->second.incarnation &&", "region.pages > 0 &&", None),
]


if __name__ == "__main__":
    sys.exit(planted.main(MUTANTS, "test_dataplane", planted.by_invariant(CASES, 60), jobs=1))
