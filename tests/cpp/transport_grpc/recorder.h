// A handler that remembers what a transport reports, and checks that it keeps the rules.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "square/grpc_transport.h"
#include "square/transport.h"

namespace square::testing {

// Longer than any correct run takes, on any machine.
inline constexpr std::chrono::seconds kPatience{30};

inline constexpr std::size_t kMiB = std::size_t{1} << 20U;

inline std::uint64_t test_seed() {
  const char* given = std::getenv("SQUARE_SEED");
  const std::uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device{}();
  MESSAGE("SQUARE_SEED=" << seed);
  return seed;
}

struct LinkRecord {
  LinkEnd end = LinkEnd::kTail;
  std::string peer;
  bool up = false;
  std::size_t sent = 0;
  std::size_t received = 0;
  std::vector<Duration> round_trips;
  std::vector<Frame> frames;
  bool is_suspected = false;
  int suspicions = 0;
  std::optional<Status> down;
  int inside = 0;
};

class Recorder final : public TransportHandler {
 public:
  // Called from inside on_frame(), without a lock; where it is set, frames are not kept.
  std::function<void(LinkHandle, Frame)> frame_hook;
  std::function<void(LinkHandle)> up_hook;
  // Set after stop(): any call from then on is a broken rule.
  std::atomic<bool> stopped = false;

  void on_link_up(LinkHandle link, LinkEnd end, std::string_view peer) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || record.up;
      record.up = true;
      record.end = end;
      record.peer = peer;
    });
    if (up_hook) up_hook(link);
    leave(link);
  }

  void on_frame(LinkHandle link, Frame frame) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || !record.up;
      ++record.received;
      if (!frame_hook) record.frames.push_back(frame);
    });
    if (frame_hook) frame_hook(link, std::move(frame));
    leave(link);
  }

  void on_sent(LinkHandle link) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || !record.up;
      ++record.sent;
    });
    leave(link);
  }

  void on_round_trip(LinkHandle link, Duration round_trip) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || !record.up;
      record.round_trips.push_back(round_trip);
    });
    leave(link);
  }

  void on_suspicion(LinkHandle link, bool is_suspected) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || !record.up || record.is_suspected == is_suspected;
      record.is_suspected = is_suspected;
      record.suspicions += is_suspected ? 1 : 0;
    });
    leave(link);
  }

  void on_link_down(LinkHandle link, Status reason) override {
    enter(link, [&](LinkRecord& record) {
      broken_ = broken_ || reason.is_ok();
      record.down = std::move(reason);
    });
    leave(link);
  }

  // Waits until `predicate` of the record holds.
  [[nodiscard]] bool wait(LinkHandle link, const std::function<bool(const LinkRecord&)>& predicate,
                          std::chrono::milliseconds patience = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] { return predicate(records_[link]); });
  }
  [[nodiscard]] bool wait_up(LinkHandle link) {
    return wait(link, [](const LinkRecord& record) { return record.up; });
  }
  // The reason of the link's end; an OK status if it did not end.
  [[nodiscard]] Status wait_down(LinkHandle link, std::chrono::milliseconds patience = kPatience) {
    if (!wait(
            link, [](const LinkRecord& record) { return record.down.has_value(); }, patience))
      return Status::ok();
    return *record(link).down;
  }
  // The nth link, from 1, that a peer of this name opened to us.
  [[nodiscard]] std::optional<LinkHandle> wait_incoming(const std::string& peer, std::size_t nth = 1) {
    std::unique_lock lock(mutex_);
    std::optional<LinkHandle> found;
    changed_.wait_for(lock, kPatience, [&] {
      std::size_t seen = 0;
      for (const auto& [link, record] : records_) {
        if (!record.up || record.end != LinkEnd::kHead || record.peer != peer) continue;
        if (++seen == nth) found = link;
      }
      return found.has_value();
    });
    return found;
  }
  [[nodiscard]] LinkRecord record(LinkHandle link) {
    const std::lock_guard lock(mutex_);
    return records_[link];
  }
  [[nodiscard]] std::size_t link_count() {
    const std::lock_guard lock(mutex_);
    return records_.size();
  }
  // Links that were reported up and not yet down.
  [[nodiscard]] std::ptrdiff_t open_links() {
    const std::lock_guard lock(mutex_);
    return std::count_if(records_.begin(), records_.end(),
                         [](const auto& entry) { return entry.second.up && !entry.second.down.has_value(); });
  }
  // Calls at once for one link, before up, after down, or after stop().
  [[nodiscard]] bool rules_broken() {
    const std::lock_guard lock(mutex_);
    return broken_;
  }

 private:
  void enter(LinkHandle link, const std::function<void(LinkRecord&)>& note) {
    {
      const std::lock_guard lock(mutex_);
      LinkRecord& record = records_[link];
      broken_ = broken_ || stopped || record.down.has_value() || ++record.inside != 1;
      note(record);
    }
    changed_.notify_all();
  }
  void leave(LinkHandle link) {
    {
      const std::lock_guard lock(mutex_);
      --records_[link].inside;
    }
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LinkHandle, LinkRecord> records_;
  bool broken_ = false;
};

// A started transport with its recorder.
class Node {
 public:
  explicit Node(const std::string& name, GrpcTransportOptions options = {}) {
    options.node_name = name;
    auto made = make_grpc_transport(std::move(options));
    REQUIRE(made.is_ok());
    transport = std::move(made).value();
    const Status started = transport->start(recorder);
    REQUIRE_MESSAGE(started.is_ok(), started.to_string());
  }
  ~Node() { stop(); }

  void stop() {
    transport->stop();
    recorder.stopped = true;
    CHECK_FALSE(recorder.rules_broken());
  }
  LinkHandle open(const std::string& peer, const Node& to) {
    return transport->open_link(peer, to.transport->address());
  }

  Recorder recorder;
  std::unique_ptr<Transport> transport;
};

// Payload whose release is counted.
class CountedPayload {
 public:
  explicit CountedPayload(std::size_t size_bytes, std::byte value = std::byte{0x42})
      : bytes_(std::make_shared<std::vector<std::byte>>(size_bytes, value)),
        live_(std::make_shared<std::atomic<int>>(0)) {}

  // Memory that stays readable, with an owner of its own.
  [[nodiscard]] Buffer take() {
    ++*live_;
    std::shared_ptr<const void> owner(bytes_->data(),
                                      [live = live_, bytes = bytes_](const void*) { --*live; });
    return {std::move(owner), bytes_->data(), bytes_->size()};
  }
  [[nodiscard]] int live() const { return *live_; }

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::shared_ptr<std::atomic<int>> live_;
};

inline Frame block(std::uint64_t sequence, Buffer payload = {}) {
  Frame frame;
  frame.header.hop_sequence = sequence;
  frame.payload = std::move(payload);
  return frame;
}

}  // namespace square::testing
