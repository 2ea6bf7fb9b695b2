// Messages about pages in words: what a test compares or a reader reads.
#pragma once

#include <string>
#include <vector>

#include "dataplane/page_messages.h"

namespace sluice {

inline std::string keys_text(const std::vector<PageKey>& keys) {
  std::string text;
  for (const PageKey& key : keys)
    for (const std::uint64_t word : key.words) text += " " + std::to_string(word);
  return text;
}

inline std::string text_of(const pages::Message& message) {
  using namespace pages;
  std::string text = "kind " + std::to_string(message.index());
  if (const auto* hello = std::get_if<Hello>(&message))
    text += " " + std::to_string(hello->incarnation) + " " + std::to_string(hello->page_bytes) +
            " " + std::to_string(hello->layout[0]) + " " + std::to_string(hello->layout[31]) + " " +
            std::to_string(hello->nonce[0]) + " " + std::to_string(hello->nonce[15]);
  if (const auto* proof = std::get_if<Proof>(&message)) text += keys_text({proof->mac});
  if (const auto* find = std::get_if<Find>(&message))
    text += " " + std::to_string(find->id) + keys_text(find->keys);
  if (const auto* ask = std::get_if<Ask>(&message))
    text += " " + std::to_string(ask->id) + keys_text(ask->keys) +
            (ask->for_places ? " for places" : "");
  if (const auto* found = std::get_if<Found>(&message))
    text += " " + std::to_string(found->id) + " " + std::to_string(found->pages) + " " +
            std::to_string(found->receipt);
  const auto head_text = [](const PageHead& head) {
    return " " + std::to_string(head.id) + " " + std::to_string(head.incarnation) + " " +
           std::to_string(head.generation) + keys_text({head.key}) + " " +
           std::to_string(head.index) + " " + std::to_string(head.length) + " " +
           std::to_string(head.crc32c);
  };
  const auto end_text = [](const End& end) {
    return " " + std::to_string(end.id) + " " + std::to_string(end.pages) + " " +
           std::to_string(static_cast<int>(end.status)) + " " + std::to_string(end.receipt);
  };
  if (const auto* page = std::get_if<PageContent>(&message))
    text += head_text(page->head) + ", " + std::to_string(page->content.size()) + " bytes";
  if (const auto* said = std::get_if<Places>(&message)) {
    for (const Place& place : said->places)
      text += head_text(place.head) + " in page " + std::to_string(place.page);
    text += end_text(said->end);
  }
  if (const auto* region = std::get_if<Region>(&message))
    text += " " + std::to_string(region->incarnation) + " " + std::to_string(region->pages) + ", " +
            std::to_string(region->key.size()) + " bytes";
  if (const auto* end = std::get_if<End>(&message)) text += end_text(*end);
  if (const auto* took = std::get_if<Took>(&message)) text += " " + std::to_string(took->receipt);
  if (const auto* note = std::get_if<Note>(&message))
    text += " " + std::to_string(note->id) + ", " + std::to_string(note->text.size()) + " bytes";
  if (const auto* noted = std::get_if<Noted>(&message))
    text += " " + std::to_string(noted->id) + " " + std::to_string(noted->receipt);
  if (const auto* follow = std::get_if<Follow>(&message))
    text += " " + std::to_string(follow->since) + " " + std::to_string(follow->mark);
  if (const auto* told = std::get_if<Published>(&message)) {
    text += " " + std::to_string(told->mark) + " " + std::to_string(told->last);
    for (const ToldPage& page : told->pages) text += keys_text({page.key, page.parent});
  }
  return text;
}

inline std::string text_of(const pages::Bytes& bytes) {
  const auto message = pages::decode(bytes);
  return message.has_value() ? text_of(*message) : "no message";
}

}  // namespace sluice
