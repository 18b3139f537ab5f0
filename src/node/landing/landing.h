// From the wire into members' buffers without a detour: the thread that received a block writes
// it to where it belongs, and the strand hears of it afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "node/plan/installed_collective.h"
#include "square/frame.h"
#include "square/transport.h"
#include "trust/block_seal.h"

namespace square {

class LandingZone;

// A block that was written into a zone. Unless it is kept, the block is free again for
// another copy when this is gone: a frame that is refused leaves no hole.
class LandedBlock {
 public:
  LandedBlock(std::shared_ptr<LandingZone> zone, std::size_t block, std::size_t bytes)
      : zone_(std::move(zone)), block_(block), bytes_(bytes) {}
  ~LandedBlock();
  LandedBlock(const LandedBlock&) = delete;
  LandedBlock& operator=(const LandedBlock&) = delete;

  [[nodiscard]] std::size_t size_bytes() const { return bytes_; }
  [[nodiscard]] bool is_in(const std::shared_ptr<LandingZone>& zone) const { return zone_ == zone; }
  // The block counts: nobody may write it again.
  void keep() { is_kept_ = true; }

 private:
  std::shared_ptr<LandingZone> zone_;
  std::size_t block_;
  std::size_t bytes_;
  bool is_kept_ = false;
};
// None for a frame that did not land.
using Landing = std::shared_ptr<LandedBlock>;

// How the bytes of an operation in one session are cut into blocks.
struct BlockShape {
  std::uint64_t total_bytes = 0;
  std::uint32_t block_bytes = 0;
  Epoch layout{0};  // as in FrameHeader
  bool is_sealed = false;

  static BlockShape of(const FrameHeader& header) {
    return {header.total_bytes, header.block_bytes, header.layout, header.is_sealed};
  }
  [[nodiscard]] std::size_t block_count() const;
  // Of the tensor, without what sealing adds. Precondition: below block_count().
  [[nodiscard]] std::size_t bytes_of(std::size_t block) const;
  // Whether a block with this header is of this shape and has the size that goes with its place.
  [[nodiscard]] bool fits(const FrameHeader& header, std::size_t payload_bytes) const;
  friend bool operator==(const BlockShape&, const BlockShape&) = default;
};

// The buffers of one operation's members in one session while they may be written. Every block
// is written by one thread at a time, the one that has claimed it. Thread-safe.
class LandingZone : public std::enable_shared_from_this<LandingZone> {
 public:
  // `drained` runs once, on any thread, if blocks were being written when the zone was closed:
  // when the last of them is through.
  LandingZone(BlockShape shape, std::function<void()> drained);
  virtual ~LandingZone() = default;
  LandingZone(const LandingZone&) = delete;
  LandingZone& operator=(const LandingZone&) = delete;

  // Writes the block on the calling thread. Nothing if the block does not fit, is claimed
  // already, or the zone is closed.
  Landing land(const FrameHeader& header, const Buffer& payload);
  // Whether the caller may write this block now, by other means.
  bool claim(std::size_t block);
  // May be other when this returns.
  [[nodiscard]] bool is_claimed_now(std::size_t block) const;
  void release(std::size_t block);
  [[nodiscard]] std::vector<bool> claimed() const;
  // No further block may land.
  void close();
  // Closed, and nobody writes any more.
  [[nodiscard]] bool is_drained() const;

 protected:
  [[nodiscard]] const BlockShape& shape() const { return shape_; }
  // Guards what a kind of zone decides by, too.
  [[nodiscard]] std::mutex& mutex() const { return mutex_; }
  [[nodiscard]] bool is_claimed(std::size_t block) const { return claimed_[block]; }

 private:
  // With the mutex held: whether the zone takes a block that fits and that nobody has claimed.
  [[nodiscard]] virtual bool admits(const FrameHeader& header, std::size_t block) const = 0;
  // False where the block is not what its source has sealed: nothing is written then.
  virtual bool write(const FrameHeader& header, const Buffer& payload) = 0;
  // With the mutex held, after write(). True: the block counts whatever the strand says.
  virtual bool counts_at_once(std::size_t block) = 0;

  bool enter(const FrameHeader& header, std::size_t block);
  bool leave(std::size_t block, bool is_written);

  const BlockShape shape_;
  std::function<void()> drained_;
  mutable std::mutex mutex_;
  std::vector<bool> claimed_;
  std::size_t writing_ = 0;
  bool closed_ = false;
};

// Of a multicast: blocks are copied to every destination, and the strand decides which count.
class CopyZone final : public LandingZone {
 public:
  // `opener`: of blocks that are sealed; null where they are not.
  CopyZone(BlockShape shape, std::vector<std::byte*> destinations, std::function<void()> drained,
           std::shared_ptr<const trust::BlockOpener> opener = nullptr);

 private:
  [[nodiscard]] bool admits(const FrameHeader& header, std::size_t block) const override;
  bool write(const FrameHeader& header, const Buffer& payload) override;
  bool counts_at_once(std::size_t block) override;

  const std::vector<std::byte*> destinations_;
  const std::shared_ptr<const trust::BlockOpener> opener_;
};

// The open zones of a node, and who may write to them: the neighbours that are parents in the
// very stream that a block claims to be of. Any other frame waits for the strand's judgement.
// Written on the strand, read on the transport's threads. Thread-safe.
class LandingTable {
 public:
  // This node is the head of the link.
  void connect(LinkHandle link, const std::string& peer);
  void disconnect(LinkHandle link);
  void add_stream(const LocalStream& stream);
  void remove_stream(const StreamKey& key);
  void open(SessionId session, OperationId operation, std::shared_ptr<LandingZone> zone);
  void close(SessionId session, OperationId operation, const std::shared_ptr<LandingZone>& zone);

  // Lands a block where there is a zone for it. The payload of a landed frame is dropped
  // unless this node passes it on.
  Landing land(LinkHandle link, Frame& frame) const;

 private:
  // A neighbour's name, in short: this is looked up for every block.
  using PeerNumber = std::uint32_t;
  struct Stream {
    std::vector<PeerNumber> parents;
    bool is_relayed = false;
  };
  struct Place {
    std::shared_ptr<LandingZone> zone;
    bool is_relayed = false;
  };
  [[nodiscard]] Place find(LinkHandle link, const FrameHeader& header) const;
  // With the mutex held.
  PeerNumber number_of(const std::string& peer);

  mutable std::shared_mutex mutex_;
  std::map<std::string, PeerNumber> numbers_;
  std::map<LinkHandle, PeerNumber> peers_;
  std::map<StreamKey, Stream> streams_;
  std::map<std::pair<SessionId, OperationId>, std::shared_ptr<LandingZone>> zones_;
};

}  // namespace square
