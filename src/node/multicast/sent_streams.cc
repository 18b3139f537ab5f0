#include "node/multicast/sent_streams.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "node/codes/coded_payload.h"
#include "node/plan/delivery.h"

namespace square::sending {
namespace {

// The time from a block's start on its first link to its arrival is what it takes on so many
// links, or on all of the stream's tree where that is deeper.
constexpr double kMinDeliveryLinks = 2.0;
// A stream is not silent before so many times what a block should take.
constexpr double kSlowDelivery = 4.0;
constexpr Duration kLongestDelivery = std::chrono::minutes(1);
// What is left on an old stream shares its links with the new ones.
constexpr double kSharedLinks = 2.0;

using SeenOfCodes = std::map<StreamIndex, Seen>;

void note_seen_of_code(SeenOfCodes& known, const PlanCode::Sink& sink, const Acknowledgement::Seen& seen,
                       TimePoint now) {
  for (const StreamIndex stream : sink.streams) known.try_emplace(stream, Seen{0, now});
  const auto own = known.find(seen.stream);
  if (own != known.end() && seen.sequence > own->second.sequence) own->second = {seen.sequence, now};
}

// The least of those that count.
std::uint64_t seen_of_code(const SeenOfCodes& known, const PlanCode::Sink& sink, const Stream& code,
                           TimePoint now) {
  std::vector<Seen> all;
  for (const StreamIndex stream : sink.streams) all.push_back(known.at(stream));
  std::ranges::sort(all, {}, &Seen::sequence);
  std::size_t least = 0;
  const auto stands_still = [&](const Seen& one) {
    return one.sequence < all.back().sequence && now - one.moved_at >= code.patience;
  };
  while (least < code.redundancy() && stands_still(all[least])) ++least;
  return all[least].sequence;
}

Duration at_most_longest(double seconds) {
  return from_seconds(std::min(seconds, to_seconds(kLongestDelivery)));
}

}  // namespace

bool Way::has_room() const {
  return all_hops([](const auto& hop) { return hop->has_room(); });
}

bool Way::has_sent(OperationId operation, std::uint64_t sequence) const {
  const bool is_owed = std::ranges::find(owed, sequence, &Owed::sequence) != owed.end();
  return !is_owed && all_hops([&](const auto& hop) { return !hop->is_queued(operation, sequence); });
}

void Way::send_owed(const std::function<bool(const Owed&)>& is_needed, const CargoFrames& frames) {
  while (!owed.empty()) {
    const Owed next = owed.front();
    if (is_needed(next)) {
      if (!has_room()) break;
      const Frame frame = frames.of_generation(*local, next.first, next.sequence, next.are_floats);
      for (const auto& hop : hops) hop->enqueue(frame, nullptr);
    }
    owed.pop_front();
  }
  if (owed.empty()) return;
  for (const auto& hop : hops) hop->want_room();
}

bool has_room_for_sums(const Stream& stream, std::size_t block_bytes) {
  return block_bytes + trust::kSealBytes + checksum_bytes(*stream.local().coded_as(false).code) <=
         kMaxBlockBytes;
}

void Stream::forget_settled(std::uint64_t settled, const std::function<bool(std::size_t block)>& everyone_has,
                            TimePoint now) {
  is_silent = is_silent && settled < silent_from;
  const auto is_settled = [&](const Assignment& assignment) {
    return assignment.sequence <= settled || (redundancy() > 0 && everyone_has(assignment.block));
  };
  while (!in_flight.empty() && is_settled(in_flight.front())) {
    moved_at = settled_at = now;
    patience = std::max(least_patience, std::min(2 * (now - in_flight.front().at), kMaxSilentTime));
    in_flight.pop_front();
  }
}

bool Stream::can_do_without(const std::vector<StreamIndex>& failing) const {
  if (failing.size() <= redundancy()) return true;
  if (redundancy() == 0) return false;
  return std::ranges::all_of(code->sinks, [&](const PlanCode::Sink& sink) {
    const auto fails = [&](StreamIndex stream) { return std::ranges::count(failing, stream) > 0; };
    return static_cast<std::size_t>(std::ranges::count_if(sink.streams, fails)) <= redundancy();
  });
}

std::vector<std::string> Stream::peers() const {
  std::vector<std::string> all;
  for (const Way& way : ways) all.insert(all.end(), way.local->children.begin(), way.local->children.end());
  return all;
}

double Stream::delivery_links() const {
  return std::max(kMinDeliveryLinks, static_cast<double>(local().depth));
}

bool Stream::has_room() const {
  return enough_ways([](const Way& way) { return way.owed.empty() && way.has_room(); });
}

bool Stream::is_usable() const {
  return !is_silent && enough_ways([](const Way& way) {
    return way.all_hops([](const auto& hop) { return hop->is_usable(); });
  });
}

TimePoint Stream::last_block_at() const {
  TimePoint earliest = TimePoint::max();
  for_each_hop([&](const auto& hop) { earliest = std::min(earliest, hop->last_block_at()); });
  return std::max(earliest, last_assignment);
}

void Stream::probe(const CargoFrames& frames, TimePoint now) {
  for (const Way& way : ways) {
    const std::uint64_t next = way.owed.empty() ? next_sequence : way.owed.front().sequence;
    const Frame frame = frames.probe(*way.local, next - 1);
    for (const auto& hop : way.hops) hop->enqueue(frame, nullptr);
  }
  probed_at = now;
}

bool Stream::is_moving(TimePoint now) const {
  return is_usable() && now - std::max({room_at, last_assignment, settled_at}) < patience;
}

void Stream::fall_silent() {
  is_silent = true;
  silent_from = next_sequence - 1;
  patience = std::max(least_patience, std::min(2 * patience, kMaxSilentTime));
}

void Stream::tell_under_way(std::size_t block_bytes) {
  const std::size_t bytes = in_flight.size() * block_bytes;
  for_each_hop([&](const auto& hop) { hop->change_under_way(told_bytes, bytes); });
  told_bytes = bytes;
}

std::size_t Stream::under_way_bytes(std::size_t block_bytes) const {
  std::size_t most = told_bytes;
  for_each_hop([&](const auto& hop) { most = std::max(most, hop->under_way_bytes()); });
  return most - told_bytes + in_flight.size() * block_bytes;
}

std::size_t Stream::queued_blocks() const {
  std::size_t most = 0;
  for_each_hop([&](const auto& hop) { most = std::max(most, hop->queued_blocks()); });
  return most * blocks;
}

double Stream::seconds_per_block(std::size_t block_bytes) const {
  return static_cast<double>(block_bytes) * kBitsPerByte / rate_bps;
}

double Stream::delivery_seconds(std::size_t block_bytes) const {
  return blocks_to_deliver(local().depth) * static_cast<double>(blocks) * seconds_per_block(block_bytes);
}

Duration Stream::slow_delivery(std::size_t block_bytes) const {
  const double hop =
      seconds_per_block(block_bytes) * static_cast<double>(blocks) + 2 * to_seconds(local().latency);
  return at_most_longest(kSlowDelivery * delivery_links() * hop);
}

double Turns::end(const Stream& stream, std::size_t block_bytes) {
  return stream.next_turn + static_cast<double>(stream.blocks) * stream.seconds_per_block(block_bytes);
}

void Turns::take(Stream& stream, std::size_t block_bytes) {
  begin_ = stream.next_turn;
  stream.next_turn = end(stream, block_bytes);
}

void Turns::miss(Stream& stream) const { stream.next_turn = std::max(stream.next_turn, begin_); }

std::vector<Stream> streams_from_here(
    const InstalledCollective& plan, SessionId session,
    const std::function<std::shared_ptr<OutgoingStream>(const std::string& child, const StreamKey& key)>&
        find_hop) {
  std::vector<Stream> trees;
  std::vector<Stream> codes;
  for (const LocalStream* local : plan.streams_of(session)) {
    if (!local->is_root || !local->starts_here()) continue;
    Way way{local, {}};
    for (const std::string& child : local->children) way.hops.push_back(find_hop(child, local->key));
    if (local->code == nullptr) {
      Stream& tree = trees.emplace_back();
      tree.rate_bps = local->rate_bps;
      tree.is_spare = local->is_spare;
      tree.ways.push_back(std::move(way));
      continue;
    }
    auto code = std::ranges::find(codes, local->code, &Stream::code);
    if (code == codes.end()) {
      Stream& added = codes.emplace_back();
      added.rate_bps = local->code->rate_bps;
      added.blocks = local->code->blocks;
      added.code = local->code;
      code = codes.end() - 1;
    }
    code->ways.push_back(std::move(way));
  }
  std::ranges::move(codes, std::back_inserter(trees));
  return trees;
}

void note_seen(Destination& destination, const std::vector<Stream>& streams, const PlanSession& session,
               const Acknowledgement::Seen& seen, TimePoint now) {
  if (seen.stream.index() >= session.streams.size()) return;
  const auto& part = session.streams[seen.stream.index()].coded;
  for (std::size_t k = 0; k < streams.size(); ++k) {
    const Stream& stream = streams[k];
    std::uint64_t up_to = seen.sequence;
    if (part && stream.code == &session.codes[part->code]) {
      const auto sink = std::ranges::find(stream.code->sinks, destination.node, &PlanCode::Sink::member);
      if (sink == stream.code->sinks.end()) return;
      note_seen_of_code(destination.seen_of_codes, *sink, seen, now);
      up_to = seen_of_code(destination.seen_of_codes, *sink, stream, now);
    } else if (stream.code != nullptr || stream.local().key.stream != seen.stream) {
      continue;
    }
    destination.seen[k] = std::max(destination.seen[k], std::min(up_to, stream.next_sequence - 1));
  }
}

void Destination::hear(const Acknowledgement& ack, TimePoint now) {
  have.insert_all_below(ack.first_missing);
  for (std::size_t i = 0; i < ack.bits.size(); ++i) {
    if (ack.bits[i]) have.insert(ack.first_missing + i);
  }
  if (ack.accepting && !accepting) accepting_since = now;
  accepting = ack.accepting;
  heard_at = now;
}

void Destination::begin(std::size_t streams) {
  seen.assign(streams, 0);
  seen_of_codes.clear();
  checked.assign(streams, 0);
}

std::vector<Destination> destinations_of(const PlanSession& session, std::size_t block_count) {
  std::vector<Destination> destinations;
  for (const NodeId member : session.members) {
    if (member != session.root)
      destinations.push_back({member, BlockSet(block_count), false, true, {}, {}, {}, {}, {}});
  }
  return destinations;
}

bool lacks_any(const std::vector<Destination>& destinations, std::size_t first, std::size_t end) {
  for (std::size_t block = first; block < end; ++block) {
    if (!everyone_has(destinations, block)) return true;
  }
  return false;
}

std::uint64_t settled_on(const std::vector<Stream>& streams, std::size_t stream,
                         const std::vector<Destination>& destinations) {
  std::uint64_t settled = streams[stream].next_sequence;
  for (const Destination& d : destinations) {
    if (!d.done) settled = std::min(settled, d.checked[stream]);
  }
  return settled;
}

bool outlive_losses(const std::vector<Stream>& streams, TimePoint now) {
  const auto goes_on = [&](const Stream& stream) {
    return stream.is_spare || (stream.redundancy() > 0 && stream.is_moving(now));
  };
  return std::ranges::all_of(streams, goes_on) &&
         std::ranges::any_of(streams, [](const Stream& stream) { return stream.redundancy() > 0; });
}

std::optional<Acknowledgement> last_word_of_departed(const std::vector<Destination>& destinations,
                                                     const InstalledCollective& plan, OperationId operation,
                                                     const Departures& departures) {
  for (const Destination& destination : destinations) {
    if (destination.done) continue;
    if (!departures.has_finished(plan.name_of(destination.node), plan.id(), operation)) continue;
    Acknowledgement word;
    word.destination = destination.node;
    word.first_missing = static_cast<std::uint32_t>(destination.have.size());
    word.done = true;
    return word;
  }
  return std::nullopt;
}

std::string describe_missing(const std::vector<Destination>& destinations, const InstalledCollective& plan) {
  std::string text;
  for (const Destination& d : destinations) {
    if (d.done) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("\"{}\" ({} of {} blocks{})", plan.name_of(d.node), d.have.count(), d.have.size(),
                        d.accepting ? "" : ", not called yet");
  }
  return text;
}

bool all_refuse(const std::vector<Destination>& destinations) {
  return std::ranges::all_of(destinations, [](const Destination& d) { return d.done || !d.accepting; });
}

bool waits_for_calls(const std::vector<Destination>& destinations) {
  return std::ranges::any_of(destinations, [](const Destination& d) { return !d.done && !d.accepting; });
}

bool everyone_has(const std::vector<Destination>& destinations, std::size_t block) {
  return std::ranges::all_of(destinations,
                             [&](const Destination& d) { return d.done || d.have.contains(block); });
}

std::size_t first_missing(const std::vector<Destination>& destinations) {
  std::size_t first = std::numeric_limits<std::size_t>::max();
  for (const Destination& d : destinations) {
    if (!d.done) first = std::min(first, d.have.first_missing());
  }
  return first;
}

std::vector<Stream*> worth_asking(std::vector<Stream>& streams, bool was_answered) {
  std::vector<Stream*> found;
  Stream* fastest_idle = nullptr;
  for (Stream& stream : streams) {
    if (!was_answered || !stream.in_flight.empty()) {
      found.push_back(&stream);
    } else if (stream.is_usable() && (fastest_idle == nullptr || stream.rate_bps > fastest_idle->rate_bps)) {
      fastest_idle = &stream;
    }
  }
  if (fastest_idle != nullptr) found.push_back(fastest_idle);
  return found;
}

void close(std::vector<Stream>& streams) {
  for (Stream& stream : streams) {
    stream.in_flight.clear();
    stream.tell_under_way(0);
  }
}

Stream* slower_that_waits(std::vector<Stream>& streams, const Stream& faster, OperationId operation) {
  if (faster.queued_blocks() > 0 || faster.code != nullptr) return nullptr;
  for (Stream& slower : streams) {
    if (slower.code != nullptr || slower.rate_bps >= faster.rate_bps || slower.in_flight.empty()) continue;
    const std::uint64_t last = slower.in_flight.back().sequence;
    if (slower.all_hops([&](const auto& hop) { return hop->is_queued(operation, last); })) return &slower;
  }
  return nullptr;
}

bool do_others_move(const std::vector<Stream>& streams, const std::vector<Destination>& destinations,
                    const Stream& stream, TimePoint now) {
  const TimePoint since = stream.in_flight.front().at;
  const bool all_speak =
      std::ranges::all_of(destinations, [&](const auto& d) { return d.done || d.heard_at > since; });
  return std::ranges::any_of(streams, [&](const Stream& other) {
    if (&other == &stream || !other.is_usable()) return false;
    if (other.in_flight.empty()) return all_speak;
    return other.settled_at > since && now - other.settled_at < other.patience / 2;
  });
}

bool is_too_slow(const std::vector<Stream>& streams, const Stream& stream, const Rest& rest) {
  double faster_bps = 0;
  const double bits = static_cast<double>(rest.block_bytes) * kBitsPerByte;
  double left =
      static_cast<double>(rest.blocks) * bits + static_cast<double>(rest.bytes_before) * kBitsPerByte;
  const Stream* fastest = nullptr;
  for (const Stream& other : streams) {
    if (other.rate_bps <= stream.rate_bps || (rest.is_again && other.code != nullptr)) continue;
    if (!other.is_usable() || rest.now - other.last_block_at() > kPassOverTime) continue;  // no longer moving
    faster_bps += other.rate_bps;
    left += static_cast<double>(other.in_flight.size()) * bits;
    if (fastest == nullptr || other.rate_bps > fastest->rate_bps) fastest = &other;
  }
  if (fastest == nullptr) return false;
  // What is under way waits on some link, where the stream may have no more than its rate.
  const double own =
      static_cast<double>(stream.under_way_bytes(rest.block_bytes)) * kBitsPerByte / stream.rate_bps +
      stream.delivery_seconds(rest.block_bytes);
  return own > left / faster_bps + fastest->delivery_seconds(rest.block_bytes);
}

Duration time_under_way(const std::vector<Stream>& streams, std::size_t block_bytes) {
  Duration longest{0};
  for (const Stream& stream : streams) {
    if (stream.in_flight.empty()) continue;
    const double in_line =
        static_cast<double>(stream.in_flight.size()) * stream.seconds_per_block(block_bytes);
    longest = std::max(longest, at_most_longest(kSharedLinks * in_line) + stream.slow_delivery(block_bytes));
  }
  return longest;
}

}  // namespace square::sending
