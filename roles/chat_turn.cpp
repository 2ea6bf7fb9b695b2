#include "roles/chat_turn.h"

namespace sluice::chat {

bool Telling::is_over(KvPeers& peers, std::int64_t now) const {
  KvPeers::Told told = peers.told(number);
  if (told == KvPeers::Told::waiting && now < until) return false;
  if (told == KvPeers::Told::waiting) told = peers.give_up(number);
  const std::string who = "the machine that has the conversation ";
  if (told == KvPeers::Told::unsure)
    activation->warn(who +
                     "may not have heard what was said: the next turn may not know of this one");
  if (told != KvPeers::Told::failed) return true;
  const std::optional<PageMismatch> why = peers.mismatch(from);
  const std::string then = ": the next turn does not know of this one";
  if (why == PageMismatch::secret)
    activation->warn(who + "has another kv-pages.secret, so it did not hear what was said" + then +
                     "; copy the file of one machine to both, and start them again");
  else if (why == PageMismatch::layout)
    activation->warn(who + "has pages of another layout, so it did not hear what was said" + then +
                     "; give both the same files of the model, and start them again");
  else if (!peers.has_met(from.machine))
    activation->warn(
        who + "and this one have never exchanged pages, so it did not hear what was said" + then);
  else
    activation->warn(who + "did not hear what was said" + then);
  return true;
}

}  // namespace sluice::chat
