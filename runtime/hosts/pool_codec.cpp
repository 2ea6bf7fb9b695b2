#include "runtime/hosts/pool_codec.h"

#include <algorithm>
#include <string_view>

namespace sluice::hosts {

namespace {

using wire::ByteReader;
using wire::ByteWriter;

constexpr std::uint64_t any = ~std::uint64_t{0};

/// Of a report, in the order in which they travel.
constexpr std::uint64_t PoolReport::*numbers[] = {
    &PoolReport::page_tokens,   &PoolReport::page_bytes,
    &PoolReport::pages,         &PoolReport::free,
    &PoolReport::cached,        &PoolReport::used,
    &PoolReport::shared,        &PoolReport::published,
    &PoolReport::prompts,       &PoolReport::asked,
    &PoolReport::memory,        &PoolReport::brought,
    &PoolReport::computed,      &PoolReport::brought_pages,
    &PoolReport::brought_bytes, &PoolReport::given_pages,
    &PoolReport::given_bytes,   &PoolReport::source_pages,
    &PoolReport::source_bytes,  &PoolReport::source_bytes_most,
    &PoolReport::sessions,      &PoolReport::window_blocks,
    &PoolReport::window_hits,   &PoolReport::window_optimum,
    &PoolReport::tenant_pages,  &PoolReport::tenants,
    &PoolReport::disk_broken};
constexpr PoolTimes PoolReport::*times[] = {&PoolReport::disk_reads, &PoolReport::disk_writes,
                                            &PoolReport::pulls};
constexpr std::uint64_t PoolTimes::*time_numbers[] = {&PoolTimes::count, &PoolTimes::sum_ns,
                                                      &PoolTimes::most_ns};
constexpr std::string PoolReport::*texts[] = {&PoolReport::name, &PoolReport::model,
                                              &PoolReport::layout, &PoolReport::source_off};
constexpr std::uint64_t PoolReport::Index::*index_numbers[] = {
    &PoolReport::Index::asked, &PoolReport::Index::found, &PoolReport::Index::unanswered,
    &PoolReport::Index::stale, &PoolReport::Index::told,  &PoolReport::Index::anew};

void put_text(std::string_view text, ByteWriter& writer) {
  writer.text(text.substr(0, pool_text_max));
}

}  // namespace

void put_pool(const PoolReport& report, ByteWriter& writer) {
  for (const auto text : texts) put_text(report.*text, writer);
  for (const auto number : numbers) writer.number(report.*number);
  for (const auto one : times)
    for (const auto number : time_numbers) writer.number((report.*one).*number);
  writer.u8(static_cast<std::uint8_t>(report.source));
  writer.u8(report.index.has_value() ? 1 : 0);
  if (report.index.has_value()) {
    for (const auto number : index_numbers) writer.number((*report.index).*number);
    put_text(report.index->down, writer);
  }
  const std::size_t shown = std::min(report.session_list.size(), PoolReport::sessions_most);
  writer.number(shown);
  for (std::size_t i = 0; i < shown; ++i) {
    const PoolSession& one = report.session_list[i];
    put_text(one.name, writer);
    put_text(one.role, writer);
    writer.number(one.tokens);
    writer.number(one.kept);
    writer.u8(one.answering ? 1 : 0);
    writer.signed_number(one.idle_ms);
  }
  const std::size_t tenants = std::min(report.tenant_list.size(), PoolReport::tenants_most);
  writer.number(tenants);
  for (std::size_t i = 0; i < tenants; ++i) {
    put_text(report.tenant_list[i].name, writer);
    writer.number(report.tenant_list[i].pages);
    writer.number(report.tenant_list[i].cached);
  }
  writer.signed_number(report.age_ms);
}

PoolReport read_pool(ByteReader& reader) {
  PoolReport report;
  for (const auto text : texts) report.*text = reader.text("a text of a pool", pool_text_max);
  for (const auto number : numbers) report.*number = reader.number("a count of a pool", any);
  for (const auto one : times)
    for (const auto number : time_numbers)
      (report.*one).*number = reader.number("a time of a pool", any);
  report.source = static_cast<PoolReport::Source>(reader.number(
      "where pages come from", static_cast<std::uint64_t>(PoolReport::Source::machines)));
  if (reader.number("whether a pool has an index", 1) != 0) {
    PoolReport::Index& index = report.index.emplace(PoolReport::Index{});
    for (const auto number : index_numbers) index.*number = reader.number("a count", any);
    index.down = reader.text("why an index is down", pool_text_max);
  }
  report.session_list.resize(reader.count("sessions of a pool", PoolReport::sessions_most, 6));
  for (PoolSession& one : report.session_list) {
    one.name = reader.text("a session's name", pool_text_max);
    one.role = reader.text("a session's role", pool_text_max);
    one.tokens = reader.number("tokens of a session", any);
    one.kept = reader.number("tokens that it keeps", any);
    one.answering = reader.number("whether it is answered", 1) != 0;
    one.idle_ms = reader.signed_number("how long it was idle");
  }
  report.tenant_list.resize(reader.count("tenants of a pool", PoolReport::tenants_most, 3));
  for (PoolTenant& one : report.tenant_list) {
    one.name = reader.text("a tenant's name", pool_text_max);
    one.pages = reader.number("pages of a tenant", any);
    one.cached = reader.number("its pages that nobody uses", any);
  }
  report.age_ms = reader.signed_number("how old a report is");
  return report;
}

}  // namespace sluice::hosts
