// What a pool of pages holds and what it has given, for people.
//
// A page is free, cache (published, used by nobody), or used by one sequence or more; the three add
// up. Units: pages of `page_tokens` tokens and `page_bytes` bytes; milliseconds. What has been is
// counted since the pool was made.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// How long what was counted has taken.
struct PoolTimes {
  std::uint64_t count = 0, sum_ns = 0, most_ns = 0;

  void add(std::int64_t took_ns) {
    const auto took = static_cast<std::uint64_t>(std::max<std::int64_t>(took_ns, 0));
    ++count;
    sum_ns += took;
    most_ns = std::max(most_ns, took);
  }
};

/// What a session has in the pool.
struct PoolSession {
  std::string name, role;
  std::uint64_t tokens = 0;  // that it has said and heard
  std::uint64_t kept = 0;    // of those, in pages that it holds; 0 while it is answered
  bool answering = false;    // its pages are with the answer
  std::int64_t idle_ms = 0;  // since a role last asked for it
};

/// What a tenant has in the pool.
struct PoolTenant {
  std::string name;  // empty: several, that are too many to be told apart
  std::uint64_t pages = 0;
  std::uint64_t cached = 0;  // of those
};

struct PoolReport {
  static constexpr std::size_t sessions_most = 1000;
  static constexpr std::size_t tenants_most = 100;

  std::string name;    // of the global parameter
  std::string model;   // whose keys and values it holds
  std::string layout;  // "4 layers of 16 tokens, keys and values of 32 in f32"
  std::uint64_t page_tokens = 0, page_bytes = 0;

  std::uint64_t pages = 0, free = 0, cached = 0, used = 0;
  std::uint64_t shared = 0;     // of those used: by more than one sequence
  std::uint64_t published = 0;  // cached or used: what prompts find

  // A sample of the pages that were asked for lately: how many, how many of them were there, and
  // how many would have been with the best choice of pages to keep.
  std::uint64_t window_blocks = 0, window_hits = 0, window_optimum = 0;

  // Tokens of prompts that were answered, by where their keys and values came from.
  std::uint64_t prompts = 0, asked = 0;  // asked: the sum of what follows
  std::uint64_t memory = 0, brought = 0, computed = 0;

  /// Where pages are brought from that memory lacks.
  enum class Source : std::uint8_t { nowhere, disk, machines, both };
  Source source = Source::nowhere;
  std::uint64_t brought_pages = 0, brought_bytes = 0;  // read, or pulled
  std::uint64_t given_pages = 0, given_bytes = 0;      // written, or served
  std::uint64_t source_pages = 0, source_bytes = 0;    // on the disk; bytes: of its files
  std::uint64_t source_bytes_most = 0;
  std::uint64_t disk_broken = 0;  // pages read back other than written, so not used
  std::string source_off;  // why the disk is not used for a while; empty: it is
  // Of both: pages read and written, and the prompts' tokens that were read. What was brought and
  // given is the machines' then, but for the prompts' tokens, which are those of both.
  std::uint64_t disk_read = 0, disk_written = 0, disk_tokens = 0;

  // Of pages, from the asking on until the pool noticed, which is between two forwards; of pulls of
  // a prompt's pages that brought some.
  PoolTimes disk_reads, disk_writes, pulls;

  /// The host's memory below a GPU's pages. Where it is there, `brought` are tokens whose pages
  /// came up from it, whatever brought them there, and `memory` those whose pages the GPU had.
  struct Host {
    std::uint64_t pages = 0, free = 0, cached = 0;
    std::uint64_t lowered = 0, raised = 0;  // pages that were copied down, and up
    std::uint64_t missed = 0;               // that the GPU gave up before they were copied
    std::string off;                        // why nothing is copied; empty: it is
    std::string unpinned;                   // why copies are slower than they could be
  };
  std::optional<Host> host;

  /// The registry's index of who has which pages, where there is one.
  struct Index {
    std::uint64_t asked = 0, found = 0;  // prompts; those of which a machine had some
    std::uint64_t unanswered = 0;        // in time
    std::uint64_t stale = 0;             // machines that had given up what it said
    std::uint64_t told = 0, anew = 0;    // changes of pages here; how often all was told
    std::string down;                    // why it is not used; empty: it is
  };
  std::optional<Index> index;

  /// Pages that other machines have told of, where these are pulled before anybody asks for them.
  struct Preloads {
    std::uint64_t told = 0, had = 0;      // of those, here already
    std::uint64_t taken = 0, missed = 0;  // that came; that did not
    std::uint64_t useful = 0;             // that came, and a prompt found them
    std::uint64_t wasted = 0;             // that came, and were given up before
  };
  std::optional<Preloads> preloads;

  std::uint64_t tenant_pages = 0;       // that any one may have; 0: all
  std::uint64_t tenants = 0;            // that have pages
  std::vector<PoolTenant> tenant_list;  // the `tenants_most` that have most pages, these first

  std::uint64_t sessions = 0;
  std::vector<PoolSession> session_list;  // the first `sessions_most`, by name

  /// Since it was so: a forward is under way. Below nothing: nobody has seen it yet for that
  /// reason, and only its name and model are told.
  std::int64_t age_ms = 0;
};

}  // namespace sluice
