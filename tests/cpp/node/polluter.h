// A relay that does not pass on what it got: for tests of what nodes make of it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "node/passing_transport.h"

namespace square::test {

enum class Attack {
  kFlip,      // a bit of the payload
  kReplay,    // the payload of an earlier block
  kSplice,    // half of this one, half of an earlier one
  kMove,      // another place, with this payload
  kStale,     // as of another layout, process or operation
  kStrip,     // the seal taken off, the frame says that there was none
  kTruncate,  // shorter
  kFloats,    // coded as floats, the header says
  kSize,      // of an operation of another size
};
inline constexpr int kAttacks = 9;

// Between a node and its transport. What it changes passes every check of hops: the checksums are made
// afterwards.
class Polluter : public PassingTransport {
 public:
  Polluter(std::unique_ptr<Transport> transport, std::uint64_t seed, double probability)
      : PassingTransport(std::move(transport)), random_(seed), probability_(probability) {}

  void send(LinkHandle link, Frame frame) override {
    const bool is_due = static_cast<double>(random_()) < probability_ * static_cast<double>(random_.max());
    if (frame.header.type == FrameType::kBlock && frame.payload.size_bytes() > 0) {
      const Frame original = frame;
      if (is_due) {
        pollute(frame);
        ++polluted;
      }
      earlier_.push_back(original);
      if (earlier_.size() > kKept) earlier_.pop_front();
    } else if (frame.header.type == FrameType::kProbe && is_due) {
      random_() % 2 == 0 ? frame.header.total_bytes += 8'192 : frame.header.incarnation ^= 1;
      ++polluted_probes;
    }
    transport_->send(link, std::move(frame));
  }

  std::uint64_t polluted = 0;
  std::uint64_t polluted_probes = 0;

 private:
  static constexpr std::size_t kKept = 64;

  void pollute(Frame& frame) {
    auto attack = static_cast<Attack>(random_() % kAttacks);
    const Frame* const other = find_other(frame);
    if (other == nullptr && (attack == Attack::kReplay || attack == Attack::kSplice)) attack = Attack::kFlip;
    std::vector<std::byte> bytes(frame.payload.size_bytes());
    frame.payload.copy_to(bytes.data());
    switch (attack) {
      case Attack::kFlip: flip(bytes); break;
      case Attack::kReplay:
      case Attack::kSplice: {
        std::vector<std::byte> earlier(other->payload.size_bytes());
        other->payload.copy_to(earlier.data());
        const std::size_t from = attack == Attack::kSplice ? bytes.size() / 2 : 0;
        const std::size_t end = std::min(bytes.size(), earlier.size());
        if (from < end)
          std::copy(earlier.begin() + static_cast<std::ptrdiff_t>(from),
                    earlier.begin() + static_cast<std::ptrdiff_t>(end),
                    bytes.begin() + static_cast<std::ptrdiff_t>(from));
        break;
      }
      case Attack::kMove:
        if (frame.header.offset_bytes >= frame.header.block_bytes) {
          frame.header.offset_bytes -= frame.header.block_bytes;
        } else {
          flip(bytes);
        }
        break;
      case Attack::kStale: frame.header.incarnation ^= 1; break;
      case Attack::kStrip:
        frame.header.is_sealed = false;
        bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), 32));
        break;
      case Attack::kTruncate: bytes.resize(random_() % bytes.size()); break;
      case Attack::kFloats: frame.header.element_type ^= 1; break;
      case Attack::kSize: frame.header.total_bytes += frame.header.block_bytes; break;
    }
    frame.payload = Buffer::copy_of(bytes);
  }

  void flip(std::vector<std::byte>& bytes) {
    const std::size_t bit = random_() % (8 * bytes.size());
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }

  const Frame* find_other(const Frame& frame) {
    if (earlier_.empty()) return nullptr;
    const Frame& other = earlier_[random_() % earlier_.size()];
    return other.header.offset_bytes == frame.header.offset_bytes &&
                   other.header.operation == frame.header.operation &&
                   other.header.session == frame.header.session
               ? nullptr
               : &other;
  }

  std::mt19937_64 random_;
  const double probability_;
  std::deque<Frame> earlier_;
};

}  // namespace square::test
