#include "node/aborts/aborts.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "node/messages/answers.h"
#include "square/buffer.h"

namespace square {
namespace {

Frame frame_of(const Abort& abort, const StreamKey& key) {
  Frame frame;
  frame.header.type = FrameType::kAbort;
  set_stream(frame.header, key);
  frame.header.operation = abort.operation;
  frame.header.stream_sequence = abort.number;
  frame.header.call = abort.call;
  frame.payload = encode_abort(abort.cause);
  return frame;
}

}  // namespace

// Its own count after its own name: no other abort has this number.
Aborts::Aborts(const std::string& node, Ways ways)
    : ways_(std::move(ways)), own_(std::uint64_t{crc32c(std::as_bytes(std::span(node)))} << 32U) {}

bool Aborts::remember(const Abort& abort) {
  const auto is_same = [&](const Abort& known) {
    return known.session == abort.session && known.operation == abort.operation &&
           known.number == abort.number;
  };
  if (std::ranges::any_of(aborts_, is_same)) return false;
  if (aborts_.size() >= kMaxRememberedAborts) aborts_.pop_front();
  aborts_.push_back(abort);
  return true;
}

bool Aborts::hear(const Abort& abort, TimePoint now) {
  if (now >= window_begin_ + kAbortWindow) {
    heard_.clear();
    window_begin_ = now;
  }
  std::size_t& heard = heard_[abort.session];
  if (heard >= kMaxHeardAborts || !remember(abort)) return false;
  ++heard;
  return true;
}

Abort Aborts::end_session(SessionId session, const Status& cause) {
  Abort abort{session, kEveryOperation, own_ | ++count_, cause, 0};
  static_cast<void>(remember(abort));
  return abort;
}

void Aborts::pass_on(const InstalledCollective& collective, const Abort& abort,
                     const std::string& except) const {
  std::set<std::string> told{except};
  tell(collective, abort, [&](const std::string& peer) { return told.insert(peer).second; });
}

void Aborts::repeat(const WaysOf& ways_of, const std::string& peer) const {
  const std::size_t first = aborts_.size() - std::min(aborts_.size(), kRepeatedAborts);
  for (std::size_t i = first; i < aborts_.size(); ++i) {
    if (aborts_[i].operation == kEveryOperation) continue;  // what ran then, not what runs now
    for (const auto& collective : ways_of(aborts_[i].session)) {
      bool is_told = false;
      tell(*collective, aborts_[i],
           [&](const std::string& other) { return other == peer && !std::exchange(is_told, true); });
    }
  }
}

void Aborts::tell(const InstalledCollective& collective, const Abort& abort,
                  const std::function<bool(const std::string& peer)>& hears) const {
  for (const LocalStream* stream : collective.streams_of(abort.session)) {
    for (const std::string& parent : stream->parents) {
      if (hears(parent)) ways_.to_parent(parent, frame_of(abort, stream->key));
    }
    for (const std::string& child : stream->children) {
      if (hears(child)) ways_.to_child(child, frame_of(abort, stream->key));
    }
  }
}

}  // namespace square
