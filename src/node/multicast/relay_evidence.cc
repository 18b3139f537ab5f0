#include "node/multicast/relay_evidence.h"

#include <algorithm>

namespace square::sending {

void find_relays(Stream& stream, const std::vector<Destination>& destinations,
                 const InstalledCollective& plan, SessionId session) {
  if (stream.code != nullptr) return;
  const PlanSession& planned = *plan.session(session);
  const PlanStream& tree = planned.streams[stream.local().key.stream.index()];
  for (const Destination& d : destinations) stream.relays.push_back(relay_to(plan, planned, tree, d.node));
}

void RelayedBlocks::note(const Destination& destination, const Assignment& assignment, bool is_lost) {
  if (assignment.at <= destination.accepting_since) return;
  if (is_lost) ++lost_;
  if (destination.have.contains(assignment.block)) ++passed_;
}

void RelayedBlocks::report(const Stream& stream, std::size_t place, LossyRelays& lossy) const {
  if (stream.relays.empty() || !stream.relays[place] || lost_ + passed_ == 0) return;
  lossy.note_blocks(*stream.relays[place], lost_, passed_);
}

void blame_relays(const Stream& stream, std::size_t index, const std::vector<Destination>& destinations,
                  const Assignment& oldest, LossyRelays& lossy) {
  if (stream.relays.empty() || !stream.all_hops([](const auto& hop) { return hop->is_usable(); })) return;
  std::vector<RelayOnWay> blamed;
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    const Destination& d = destinations[i];
    if (d.done || d.seen[index] >= oldest.sequence) continue;
    if (!stream.relays[i] || d.heard_at < oldest.at) return;
    if (std::ranges::find(blamed, *stream.relays[i]) == blamed.end()) blamed.push_back(*stream.relays[i]);
  }
  for (const RelayOnWay& relay : blamed) lossy.note_silence(relay);
}

void find_full_relays(const std::vector<Stream>& streams, const std::vector<Destination>& destinations,
                      TimePoint now, LossyRelays& lossy) {
  for (const Stream& stream : streams) {
    if (stream.relays.empty()) continue;
    const TimePoint full_since = now - std::max(kLongestLackOfCredit, stream.least_patience);
    for (const auto& hop : stream.ways.front().hops) {
      if (!hop->is_usable() || hop->lacks_credit_since() > full_since) continue;
      const RelayOnWay* full = nullptr;
      bool are_well = true;
      for (std::size_t i = 0; i < destinations.size(); ++i) {
        const Destination& d = destinations[i];
        if (d.done || !stream.relays[i] || stream.relays[i]->first != hop->peer()) continue;
        full = &*stream.relays[i];
        are_well = are_well && d.accepting && now - d.heard_at < kMaxProbeWait;
      }
      if (full != nullptr && are_well) lossy.note_silence(*full);
    }
  }
}

void note_moves(const Stream& stream, const std::vector<Destination>& destinations, LossyRelays& lossy) {
  for (std::size_t i = 0; i < stream.relays.size(); ++i) {
    if (stream.relays[i] && !destinations[i].done) lossy.note_moves(*stream.relays[i]);
  }
}

}  // namespace square::sending
