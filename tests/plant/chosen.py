#!/usr/bin/env python3
"""Plants mistakes that once passed all tests, one at a time, and says which test notices each now.

    chosen.py BUILD [--only WORD]

BUILD is a build folder made with ninja and tests, and up to date. As plant.py, no source is touched. A row whose text
is no longer in its file is an error: the code has changed, and the row has to follow it. Not in CI; ends with 1 when
a mistake survives.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import plant  # noqa: E402

RUNTIME = ["test_runtime"]
ROLES = ["test_roles"]
MODEL = ["test_model"]
PULL = ["test_dataplane"]

# What is wrong, where, what stands there, what is planted, the tests that should notice.
MISTAKES = [
    ("a session's number is given twice", "runtime/inproc/sessions.h",
     "it->second.number = next_session_++;\n    ++it->second.calls;",
     "it->second.number = sessions_.size() - 1;\n    ++it->second.calls;", RUNTIME),
    ("a session ends while a call of it runs", "runtime/inproc/sessions.h",
     "it->second.calls > 0) return it->second.calls;", "it->second.calls > 1) return it->second.calls;", RUNTIME),
    ("a session's name behind its end is kept", "runtime/inproc/driver_peers.cpp",
     "peers_->place.port->session_over(control.text, id);", "", RUNTIME),
    ("what the folder lacks is asked of no machine", "engine/storage/folder_and_peers.cpp",
     "while (one.asked < one.places.size())", "while (one.asked < 1)", MODEL),
    ("a page that machines are giving is read from the folder beside", "engine/storage/folder_and_peers.cpp",
     "if (peers_.is_pulling(origin, tokens)) std::swap(one.places[0], one.places[1]);", "", MODEL),
    ("whom a prompt asks first is forgotten while the folder is read", "engine/storage/folder_and_peers.cpp",
     "    peers_.ask_first(one.first);\n", "", MODEL),
    ("a task that is taken out waits on at the machines", "engine/storage/folder_and_peers.cpp",
     "  peers_.forget(task);\n", "", MODEL),
    ("what was pulled is not written to the folder", "engine/storage/incoming_pages.cpp",
     "  if (pool_.on_publish) pool_.on_publish(taken_.pages()[taken_.published() - 1]);\n", "", MODEL),
    ("what running tasks were promised is taken for what is read", "engine/storage/incoming_room.h",
     "tasks != nullptr ? tasks->promised() : 0);", "0);", MODEL),
    ("what a tenant's tasks were promised is taken for what is read for it", "engine/storage/incoming_room.h",
     "  if (pool.promised != nullptr) taken += pool.promised->promised_to(tenant);\n", "", MODEL),
    ("what a prompt begins with is held though it was promised", "engine/storage/kv_tier.cpp",
     "  if (!keeps_promises(pool_, fetch.tenant)) return false;  // else the task finds them itself\n", "", MODEL),
    ("who cannot begin is refused though one behind it runs", "engine/plan/planner.cpp",
     "others_run ? ++state.overtaken <= overtaken_most : state.waits || soon", "!others_run && (state.waits || soon)", MODEL),
    ("who cannot begin is overtaken for ever", "engine/plan/planner.cpp",
     "++state.overtaken <= overtaken_most", "true", MODEL),
    ("a folder under another secret is taken", "engine/storage/store_folder.cpp",
     "folder->secret_ != *secret", "false", MODEL),
    ("a home's calls stay when it is lost", "runtime/inproc/driver_peers.cpp",
     "  loop_.home_lost(home);\n", "", RUNTIME),
    ("a lost home's sessions stay", "runtime/node/node.cpp",
     "of.machine == home.machine && of.incarnation <= home.incarnation", "false", RUNTIME),
    ("a home's loss ends the sessions of all", "runtime/node/node.cpp",
     "of.machine == home.machine && of.incarnation <= home.incarnation", "true", RUNTIME),
    ("a life hears messages before the homes have let it in", "runtime/let_in.h",
     "if (there_[home] != nobody && spoke_[home] < there_[home]) return false;", "", RUNTIME),
    ("a life waits for a home that is lost", "runtime/let_in.h",
     "there_[life.machine] = nobody;", "{}", RUNTIME),
    ("another home's session may be named as one's own", "runtime/inproc/driver_peers.cpp",
     "!control.text.ends_with(end)", "false", RUNTIME),
    ("two homes' sessions of one name are one", "runtime/node/session_names.h",
     'count(homes, true) > 1 ? "@"', 'count(homes, true) > 9 ? "@"', RUNTIME),
    ("who is no home lets lives in", "runtime/inproc/driver_peers.cpp",
     "!where.is_home(from.machine) || from.machine == where.keeper", "from.machine == where.keeper", RUNTIME),
    ("a home's own roles keep its sessions when it begins anew", "runtime/node/node.cpp",
     "if (is_home()) end_own_sessions(lock);", "", RUNTIME),
    ("what waits for the end of a home's session holds up all homes", "runtime/node/life.cpp",
     "owner_.is_ending(life.machine, control.text) ? Took::home_waits", "owner_.is_ending(life.machine, control.text) "
     "? Took::link_waits", RUNTIME),
    ("a home's life waits for the ends of other homes' sessions", "runtime/node/ending_sessions.cpp",
     "return !homes_[home].order.empty();",
     "return std::ranges::any_of(homes_, [](const Home& one) { return !one.order.empty(); });", RUNTIME),
    ("who waits for a home whose life is over waits on", "runtime/node/life.cpp",
     "return stopped_ || is_complete();", "return is_complete();", RUNTIME),
    ("who asks a home whose life is over hears that all are there", "runtime/node/life.cpp",
     "  if (stopped_) return {options_.machines[self_.machine]};\n", "", RUNTIME),
    ("a home's session that a role holds begins anew with what it had", "runtime/node/node.cpp",
     "host_->sessions()->set_over(name);", "(void)name;", RUNTIME),
    ("a home's session that a role holds never ends", "runtime/node/node.cpp",
     "if (!own_over_.empty()) end_own_over(lock);", "", RUNTIME),
    ("a call of a home's life that has not begun is taken", "runtime/inproc/driver_peers.cpp",
     "home->incarnation > peers_->lives.life_of(home->machine).incarnation", "false", RUNTIME),
    ("a home's sessions take another home's room", "runtime/inproc/known_sessions.h",
     "return of_[home] < most_of(home) ||", "return names_.size() < most_of(home) ||", RUNTIME),
    ("a node of a loop takes one frame less than its limit", "graph/engine_loops.cpp",
     "return call.came > plan_.limits.frames &&", "return call.came >= plan_.limits.frames &&", ["test_graph"]),
    ("a branch that was not taken is named", "graph/missing.cpp",
     "if (waited_for_.contains(node) || !is_branch(node)) last", "last", ["test_graph"]),
    ("a home begins calls before it is let in", "runtime/node/node.cpp",
     "if (life->is_let_in()) return std::string();", "return std::string();", RUNTIME),
    ("a session's end takes the next one of its name along", "runtime/node/node.cpp",
     "if (sessions_.erase({session, id}) == 0) return;\n  ending_.add(id.home.machine, session);",
     "if (std::erase_if(sessions_, [&](const auto& one) { return one.first.first == session; }) == 0) return;\n"
     "  ending_.add(id.home.machine, session);", RUNTIME),
    ("a failure after a yield is dropped", "runtime/inproc/activation.cpp",
     "if (!error && released) return listener_->yielded(*this, held_, true);",
     "if (released) return listener_->yielded(*this, held_, true);", RUNTIME),
    ("a failure is dropped", "runtime/inproc/activation.cpp",
     "listener_->ended(*this, std::move(error), released);", "listener_->ended(*this, nullptr, released);", RUNTIME),
    ("a cancellation does not reach the role", "runtime/inproc/driver.cpp",
     "  activation->cancel();\n  let_go(*activation);", "  let_go(*activation);", RUNTIME),
    ("colocate is ignored", "runtime/inproc/role_host.cpp",
     "at->colocate.has_value() &&", "at->colocate.has_value() && false &&", RUNTIME),
    ("all work goes to the first replica", "runtime/inproc/activation.cpp",
     "replica_ = start.replica % static_cast<std::uint32_t>(place.replicas.size());", "replica_ = 0;", RUNTIME),
    ("the last stepped role of a lane decides whether it is busy", "runtime/inproc/lane.cpp",
     "busy = step(slot, **stepped) || busy;", "busy = step(slot, **stepped);", RUNTIME),
    ("a node's deadline is not timed", "graph/clock.h",
     "node.deadline.count() != 0 || node.max_age.count() != 0", "node.max_age.count() != 0", RUNTIME),
    ("a node's max_age is not timed", "graph/clock.h",
     "node.deadline.count() != 0 || node.max_age.count() != 0", "node.deadline.count() != 0", RUNTIME),
    ("a cancelled turn stays in the conversation", "roles/language_model.cpp",
     "conversation.written.cut(kv_.pool(), conversation.before.tokens);", "", ROLES),
    ("rows of a cancelled turn give their keys to those that stand in their place", "roles/paged_kv.cpp",
     "  history.resize(sequence.tokens());\n", "", ROLES),
    ("a cancelled turn leaves its unwritten tokens", "roles/language_model.cpp",
     "conversation.unwritten = conversation.before.unwritten;", "", ROLES),
    ("a cancelled turn leaves its picture", "roles/language_model.cpp",
     "conversation.latents = conversation.before.latents;", "", ROLES),
    ("a cancelled turn is gone on with", "roles/language_model.cpp",
     "  conversation.in_turn = false;\n  if (auto replaced", "  if (auto replaced", ROLES),
    ("a turn in place of others leaves them gone where it fails", "roles/language_model.cpp",
     "conversation.written = std::move(replaced->written);", "", ROLES),
    ("a turn that another call began is kept", "roles/language_model.cpp",
     "if (conversation.in_turn && conversation.call != activation.call()) roll_back(conversation);", "", ROLES),
    ("a drawing does not look whether the session moved on", "roles/paged_kv.cpp",
     "said.is_answering || written.tokens() != length ||", "said.is_answering ||", ROLES),
    ("a drawing does not look whose turn it is of", "roles/paged_kv.cpp",
     "offered != 0 && offered != said.offered;", "false;", ROLES),
    ("a drawing's pages are offered while the session goes on", "roles/language_model.cpp",
     "  kv_.withdraw(conversation);  // a drawing that has not begun is of what stands no more\n", "", ROLES),
    ("a turn reuses a token too many", "engine/tasks/shared_prefix.cpp",
     "std::min(same, generation.history.size() - 1));", "std::min(same, generation.history.size()));",
     ["test_model", "test_roles"]),
    ("what is reused is not compared", "engine/layers/kv_content.cpp",
     "|| text_a != text_b) break;", ") break;", ["test_model", "test_roles"]),
    ("a temperature a million times too high", "roles/chat_options.h",
     "option(\"temperature_milli\", 0)) / 1000.0F", "option(\"temperature_milli\", 0)) * 1000.0F", ROLES),
    ("a cancelled answer stays in the conversation", "roles/chat_role.cpp",
     "      session->unsay();\n", "", ROLES),
    ("rows that were computed ahead of a message are computed again", "roles/chat_ahead.cpp",
     "  end(*it, mine);\n  ended.push_back({it->piece, {}});",
     "  if (it->task != nullptr) mine.engine().remove(it->number);\n  ended.push_back({it->piece, {}});", ROLES),
    ("rows that were computed ahead of a message count as found", "roles/chat_sessions.cpp",
     "ahead.not_computed(std::min(done.tokens_kept, tokens))", "std::min(done.tokens_kept, tokens)", ROLES),
    ("a message in place of others leaves them gone where it fails", "roles/chat_sessions.cpp",
     "std::ranges::move(replaced, std::back_inserter(messages));", "", ROLES),
    ("EXIF in little-endian order is not understood", "engine/picture/image_file.cpp",
     "const bool little = tiff.starts_with(\"II\");", "const bool little = false;", ROLES),
    ("EXIF in big-endian order is not understood", "engine/picture/image_file.cpp",
     "const bool little = tiff.starts_with(\"II\");", "const bool little = true;", ROLES),
    ("an oversized picture is read", "engine/picture/image_file.cpp",
     "if (width > image_side_max || height > image_side_max || width * height > image_pixels_max)",
     "if (width > image_side_max && height > image_side_max)", ROLES),
    ("a number of a request is cut off", "roles/parse_request.cpp", "std::llround(", "static_cast<std::int64_t>(", ROLES),
    ("latents of another size are decoded", "roles/image_codec.cpp",
     "latents.dtype() != Dtype::f32 || latents.count() != values", "latents.dtype() != Dtype::f32",
     ROLES),
    ("a stop string's first byte is given away", "engine/tasks/generation.cpp",
     "n > 0; --n)\n    if (text.ends_with(", "n > 1; --n)\n    if (text.ends_with(", MODEL),
    ("a prompt whose rows see each other is cut", "engine/tasks/generation.cpp",
     "need.divisible = generation_.mask == Mask::causal;", "need.divisible = true;", MODEL),
    ("a prompt over the budget shares a step", "engine/plan/planner.cpp",
     "if (most < least && !batch.items.empty()) return;", "", MODEL),
    ("a token is punished once for each time it was said", "kernels/sample.cpp",
     "once.erase(std::unique(once.begin(), once.end()), once.end());", "", ["test_kernels"]),
    ("a call that has ended is given up", "graph/coordinator.cpp",
     "if (!knows(named) || record_of(named.number).aborting) return;\n  const Number id = named.number;\n  drop(",
     "const Number id = named.number;\n  drop(", RUNTIME),
    ("a pulled page's bytes are not checked", "dataplane/page_puller.cpp",
     "  if (copy_with_crc32c(page.content, place->data()) != page.head.crc32c) {\n",
     "  if (copy_with_crc32c(page.content, place->data()) == 0 && false) {\n", PULL),
    ("a pulled page may be another one's", "dataplane/page_puller.cpp",
     "head.key == pulls_.at(question.pull).keys[question.first + question.got] &&", "", PULL),
    ("a pulled page may be of another life of the pool", "dataplane/page_puller.cpp",
     "head.incarnation == peers_.at(question.peer).incarnation &&", "", PULL),
    ("a pull waits for ever for a page", "dataplane/page_puller.cpp",
     "if (finds || pulls) late.push_back(id);", "if (finds) late.push_back(id);", PULL),
    ("what nobody waits for any more is not in flight", "dataplane/page_puller.cpp",
     "questions_.at(id).pull = 0;", "questions_.erase(id);", PULL),
    ("pages are exchanged with who means something else by them", "dataplane/page_handshake.cpp",
     "theirs.layout == hello_.layout && theirs.page_bytes == hello_.page_bytes;", "true;", PULL),
    ("a proof does not say for whom it is", "dataplane/page_handshake.cpp",
     "  add(to, other);\n", "", PULL),
    ("a proof may be any", "dataplane/page_handshake.cpp",
     "!is_same_mac(said.mac, proof(peer, *known.theirs, self_, *known.mine).mac)", "false", PULL),
    ("small questions are answered without bound", "dataplane/page_server.cpp",
     "if (known.replies.size() + known.answers >= replies_most) {", "if (false) {", PULL),
    ("a receipt may be made up", "dataplane/page_server.cpp",
     "if (it == known.replies.end()) {", "if (known.replies.empty()) {", PULL),
    ("who does not read is owed without bound", "dataplane/page_server.cpp",
     "known.owed + bytes <= owed_most", "true", PULL),
    ("a page message may be cut", "dataplane/page_messages.cpp",
     " || page.content.size() != page.head.length", "", PULL),
    ("a page is given away under its old name", "dataplane/page_table.cpp",
     "if (watcher_ != nullptr) watcher_->dropped(page);", "", MODEL),
]


def folder_of_copy(scratch, path, text):
    copy = os.path.join(scratch, "headers", path)
    os.makedirs(os.path.dirname(copy), exist_ok=True)
    with open(copy, "w", encoding="utf-8") as f:
        f.write(text)
    return os.path.join(scratch, "headers")


def includes(build, source, header):
    """Whether the source's object depends on the header."""
    done = subprocess.run(["ninja", "-t", "deps", build.compiles[source][1]], cwd=build.folder, capture_output=True,
                          text=True)
    return any(os.path.normpath(os.path.join(build.folder, line.strip())) == os.path.join(build.root, header)
               for line in done.stdout.split("\n"))


def compile_with_header(build, source, headers, to):
    words = list(build.compiles[source][0])
    if os.path.basename(words[0]) == "ccache":
        words = words[1:]
    words.insert(1, "-I" + headers)
    words = [w for w in words if not w.startswith("-W")] + ["-w"]
    words[words.index("-o") + 1] = to
    # A cache that knows the source would not see that another header now comes first.
    done = subprocess.run(words, cwd=build.folder, capture_output=True, text=True, env=os.environ | {"CCACHE_DISABLE": "1"})
    return done.returncode == 0


def objects_with(build, path, text, scratch):
    """(source, changed object) of all that has to be compiled anew. None: it does not compile."""
    if path.endswith(".cpp"):
        changed = os.path.join(scratch, "m.o")
        return [(path, changed)] if build.compile(path, text, changed) else None
    headers = folder_of_copy(scratch, path, text)
    made = []
    for source in sorted(build.compiles):
        # In a build of several sources as one theirs stand in the build folder.
        if not {"tests", "bench", "examples"}.intersection(source.split("/")) and includes(build, source, path):
            changed = os.path.join(scratch, f"m{len(made)}.o")
            if not compile_with_header(build, source, headers, changed):
                return None
            made.append((source, changed))
    return made


def link(build, program, objects, to):
    first_path, first = objects[0]
    build.link(program, first_path, first, to)
    if len(objects) == 1:
        return
    words = [dict([(first_path, first)]).get(w, w) for w in build.links[program]]
    at = next(i for i, w in enumerate(words) if w.endswith(".a"))
    words[at:at] = [changed for _, changed in objects]
    words[words.index("-o") + 1] = to
    done = subprocess.run(words, cwd=build.folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program} does not link: {done.stderr[-2000:]}")


def noticed_by(build, row, scratch):
    what, path, before, after, tests = row
    with open(os.path.join(build.root, path), encoding="utf-8") as f:
        text = f.read()
    if text.count(before) != 1:
        raise SystemExit(f"{what}: {path} has {text.count(before)} times: {before}")
    objects = objects_with(build, path, text.replace(before, after), scratch)
    if not objects:
        raise SystemExit(f"{what}: {path} does not compile with: {after}")
    for test in tests:
        linked = os.path.join(scratch, test)
        theirs = [(source, changed) for source, changed in objects if build.has_target_of(test, source)]
        if not theirs:
            raise SystemExit(f"{what}: {test} links nothing that {path} is part of")
        link(build, test, theirs, linked)
        noticed = plant.run_program(build, test, linked, 120)
        if noticed is not None:
            return noticed
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--only", default="", help="rows with this in their name or file")
    options = parser.parse_args()
    build = plant.Build(options.build)
    rows = [row for row in MISTAKES if options.only in row[0] or options.only in row[1]]
    survived = 0
    with tempfile.TemporaryDirectory() as scratch:
        for row in rows:
            noticed = noticed_by(build, row, scratch)
            survived += noticed is None
            print(f"{'noticed ' if noticed else 'SURVIVED'}  {row[0]}" + (f"\n    {noticed}" if noticed else ""), flush=True)
    print(f"{len(rows) - survived} of {len(rows)} noticed")
    sys.exit(1 if survived or not rows else 0)


if __name__ == "__main__":
    main()
