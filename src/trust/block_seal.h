// Blocks are sealed by their source and opened by their destinations: who passes them on, adds them up or
// listens neither reads nor changes them.
//
// Each source has a key of its own for each operation, made of the group's, of what the blocks have in common
// and of a salt that it draws; the number of the block is the nonce of AES-256-GCM. So no nonce comes twice
// under a key, whatever was restarted, sent again or planned anew, and a block of another operation, place,
// size or source does not open.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "square/buffer.h"
#include "trust/aes_gcm.h"

namespace square::trust {

inline constexpr std::size_t kGroupKeyBytes = 32;
inline constexpr std::size_t kSealSaltBytes = 16;
// So much longer is a block that is sealed: the tag and the salt follow it.
inline constexpr std::size_t kSealBytes = kSealTagBytes + kSealSaltBytes;

// What the members of a group have in common, and nobody else. Immutable; forgotten when it goes.
class GroupKey {
 public:
  using Bytes = std::array<std::byte, kGroupKeyBytes>;
  explicit GroupKey(const Bytes& bytes) : bytes_(bytes) {}
  ~GroupKey();
  GroupKey(const GroupKey&) = delete;
  GroupKey& operator=(const GroupKey&) = delete;

  [[nodiscard]] const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};
using GroupKeyPtr = std::shared_ptr<const GroupKey>;

// What the blocks of one operation in one session have in common.
struct SealedCargo {
  std::string group;   // its label, which no other group has
  std::string source;  // the node
  std::uint32_t incarnation = 0;
  std::uint32_t session = 0;
  std::uint64_t operation = 0;
  std::uint32_t layout = 0;
  std::uint64_t total_bytes = 0;
  std::uint32_t block_bytes = 0;
};

// Of one source, one operation and one salt. Immutable, thread-safe.
class BlockCipher {
 public:
  using Salt = std::array<std::byte, kSealSaltBytes>;
  static Salt draw_salt();

  BlockCipher(const GroupKey& key, const SealedCargo& cargo, const Salt& salt);
  ~BlockCipher();
  BlockCipher(const BlockCipher&) = delete;
  BlockCipher& operator=(const BlockCipher&) = delete;

  [[nodiscard]] const Salt& salt() const { return salt_; }
  // kSealBytes longer. Of the same block always the same bytes.
  [[nodiscard]] Buffer seal(std::size_t block, const Buffer& data) const;
  // What it is of, kSealBytes shorter, in one piece; nothing where it is not what the source has sealed as
  // this block.
  [[nodiscard]] std::optional<Buffer> open(std::size_t block, const Buffer& sealed) const;

 private:
  std::array<std::byte, kGcmKeyBytes> key_{};
  Salt salt_;
};

// A destination's: learns the salt from the blocks. Thread-safe.
class BlockOpener {
 public:
  BlockOpener(GroupKeyPtr key, SealedCargo cargo) : key_(std::move(key)), cargo_(std::move(cargo)) {}

  // As BlockCipher::open().
  [[nodiscard]] std::optional<Buffer> open(std::size_t block, const Buffer& sealed) const;
  // One was opened at least: what the blocks have in common is as the source has said.
  [[nodiscard]] bool has_opened() const { return proven() != nullptr; }
  // As the source has sealed it; nothing before one was opened.
  [[nodiscard]] std::optional<Buffer> seal_again(std::size_t block, const Buffer& data) const;

 private:
  [[nodiscard]] std::shared_ptr<const BlockCipher> proven() const;

  const GroupKeyPtr key_;
  const SealedCargo cargo_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const BlockCipher> proven_;  // has opened a block
};

}  // namespace square::trust
