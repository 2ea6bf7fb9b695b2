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
  else if (told == KvPeers::Told::failed && !peers.has_met(machine))
    activation->warn(who +
                     "and this one have never exchanged pages, so it did not hear what was said: "
                     "the next turn does not know of this one");
  else if (told == KvPeers::Told::failed)
    activation->warn(who + "did not hear what was said: the next turn does not know of this one");
  return true;
}

}  // namespace sluice::chat
