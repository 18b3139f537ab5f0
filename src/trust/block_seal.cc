#include "trust/block_seal.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstring>
#include <utility>

#include "base/check.h"
#include "trust/openssl.h"

namespace square::trust {
namespace {

constexpr const char* kBlockLabel = "square block key 1";

GcmNonce nonce_of(std::size_t block) {
  GcmNonce nonce{};
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i)
    nonce[i] = static_cast<std::byte>(std::uint64_t{block} >> (8 * i));
  return nonce;
}

// Every field has its length, or a fixed one: no two cargoes are the same bytes.
class Description {
 public:
  explicit Description(const std::string& label) { text(label); }
  void text(const std::string& value) {
    number(value.size());
    bytes_ += value;
  }
  void number(std::uint64_t value) {
    for (std::size_t i = 0; i < sizeof value; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }
  void raw_bytes(const std::byte* data, std::size_t size) {
    bytes_.append(reinterpret_cast<const char*>(data), size);
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct Piece {
  explicit Piece(std::size_t size_bytes)
      : owner(std::make_shared_for_overwrite<std::byte[]>(size_bytes)), data(owner.get()), size(size_bytes) {}
  [[nodiscard]] Buffer buffer() const { return {owner, data, size}; }

  std::shared_ptr<std::byte[]> owner;
  std::byte* data;
  std::size_t size;
};

}  // namespace

GroupKey::~GroupKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

BlockCipher::Salt BlockCipher::draw_salt() {
  Salt salt;
  SQUARE_CHECK(RAND_bytes(raw(salt.data()), static_cast<int>(salt.size())) == 1,
               "the system has no random numbers");
  return salt;
}

// HMAC-SHA256 as the pseudorandom function of a key derivation in one step (NIST SP 800-108, counter mode
// with a single block).
BlockCipher::BlockCipher(const GroupKey& key, const SealedCargo& cargo, const Salt& salt) : salt_(salt) {
  Description description(kBlockLabel);
  description.text(cargo.group);
  description.text(cargo.source);
  for (const std::uint64_t number :
       {std::uint64_t{cargo.incarnation}, std::uint64_t{cargo.session}, cargo.operation,
        std::uint64_t{cargo.layout}, cargo.total_bytes, std::uint64_t{cargo.block_bytes}})
    description.number(number);
  description.raw_bytes(salt.data(), salt.size());
  unsigned size = 0;
  const auto* const made = HMAC(EVP_sha256(), key.bytes().data(), static_cast<int>(key.bytes().size()),
                                reinterpret_cast<const unsigned char*>(description.bytes().data()),
                                description.bytes().size(), raw(key_.data()), &size);
  SQUARE_CHECK(made != nullptr && size == key_.size(), "OpenSSL has no HMAC-SHA256");
}

BlockCipher::~BlockCipher() { OPENSSL_cleanse(key_.data(), key_.size()); }

Buffer BlockCipher::seal(std::size_t block, const Buffer& data) const {
  const Piece sealed(data.size_bytes() + kSealBytes);
  GcmSeal seal(key_, nonce_of(block));
  std::byte* out = sealed.data;
  for (const Buffer::Slice& slice : data.slices()) {
    seal.add({slice.data, slice.size_bytes}, out);
    out += slice.size_bytes;
  }
  seal.finish(out);
  std::memcpy(out + kSealTagBytes, salt_.data(), salt_.size());
  return sealed.buffer();
}

std::optional<Buffer> BlockCipher::open(std::size_t block, const Buffer& sealed) const {
  if (sealed.size_bytes() < kSealBytes) return std::nullopt;
  const Piece opened(sealed.size_bytes() - kSealBytes);
  std::array<std::byte, kSealBytes> trailer;
  sealed.suffix(opened.size).copy_to(trailer.data());
  if (std::memcmp(trailer.data() + kSealTagBytes, salt_.data(), salt_.size()) != 0) return std::nullopt;
  GcmOpening opening(key_, nonce_of(block));
  std::byte* out = opened.data;
  const Buffer data = sealed.range(0, opened.size);
  for (const Buffer::Slice& slice : data.slices()) {
    opening.add({slice.data, slice.size_bytes}, out);
    out += slice.size_bytes;
  }
  return opening.finish(trailer.data()) ? std::optional(opened.buffer()) : std::nullopt;
}

std::shared_ptr<const BlockCipher> BlockOpener::proven() const {
  const std::lock_guard lock(mutex_);
  return proven_;
}

std::optional<Buffer> BlockOpener::open(std::size_t block, const Buffer& sealed) const {
  if (sealed.size_bytes() < kSealBytes) return std::nullopt;
  BlockCipher::Salt salt;
  sealed.suffix(sealed.size_bytes() - salt.size()).copy_to(salt.data());
  std::shared_ptr<const BlockCipher> cipher = proven();
  if (cipher && cipher->salt() == salt) return cipher->open(block, sealed);
  cipher = std::make_shared<const BlockCipher>(*key_, cargo_, salt);
  std::optional<Buffer> opened = cipher->open(block, sealed);
  if (opened) {
    const std::lock_guard lock(mutex_);
    proven_ = std::move(cipher);
  }
  return opened;
}

std::optional<Buffer> BlockOpener::seal_again(std::size_t block, const Buffer& data) const {
  const auto cipher = proven();
  return cipher ? std::optional(cipher->seal(block, data)) : std::nullopt;
}

}  // namespace square::trust
