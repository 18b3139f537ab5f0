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

constexpr std::size_t kNonceBytes = 12;
constexpr const char* kBlockLabel = "square block key 1";

// OpenSSL looks an algorithm up by name each time that it is asked for implicitly.
const EVP_CIPHER* block_cipher() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  SQUARE_CHECK(cipher != nullptr, "OpenSSL has no AES-256-GCM");
  return cipher;
}

std::array<unsigned char, kNonceBytes> nonce_of(std::size_t block) {
  std::array<unsigned char, kNonceBytes> nonce{};
  for (std::size_t i = 0; i < sizeof(std::uint64_t); ++i)
    nonce[i] = static_cast<unsigned char>(std::uint64_t{block} >> (8 * i));
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
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  const auto nonce = nonce_of(block);
  bool is_done = context && EVP_EncryptInit_ex2(context.get(), block_cipher(), raw(key_.data()), nonce.data(),
                                                nullptr) == 1;
  std::byte* out = sealed.data;
  int written = 0;
  for (const Buffer::Slice& slice : data.slices()) {
    is_done = is_done && EVP_EncryptUpdate(context.get(), raw(out), &written, raw(slice.data),
                                           static_cast<int>(slice.size_bytes)) == 1;
    out += slice.size_bytes;
  }
  is_done = is_done && EVP_EncryptFinal_ex(context.get(), raw(out), &written) == 1 &&
            EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, kSealTagBytes, out) == 1;
  SQUARE_CHECK(is_done, "OpenSSL cannot seal a block");
  std::memcpy(out + kSealTagBytes, salt_.data(), salt_.size());
  return sealed.buffer();
}

std::optional<Buffer> BlockCipher::open(std::size_t block, const Buffer& sealed) const {
  if (sealed.size_bytes() < kSealBytes) return std::nullopt;
  const Piece opened(sealed.size_bytes() - kSealBytes);
  std::array<std::byte, kSealBytes> trailer;
  sealed.suffix(opened.size).copy_to(trailer.data());
  if (std::memcmp(trailer.data() + kSealTagBytes, salt_.data(), salt_.size()) != 0) return std::nullopt;
  const CipherContextPtr context(EVP_CIPHER_CTX_new());
  const auto nonce = nonce_of(block);
  bool is_good = context && EVP_DecryptInit_ex2(context.get(), block_cipher(), raw(key_.data()), nonce.data(),
                                                nullptr) == 1;
  std::byte* out = opened.data;
  int written = 0;
  const Buffer data = sealed.range(0, opened.size);
  for (const Buffer::Slice& slice : data.slices()) {
    is_good = is_good && EVP_DecryptUpdate(context.get(), raw(out), &written, raw(slice.data),
                                           static_cast<int>(slice.size_bytes)) == 1;
    out += slice.size_bytes;
  }
  is_good = is_good &&
            EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, kSealTagBytes, trailer.data()) == 1 &&
            EVP_DecryptFinal_ex(context.get(), raw(out), &written) == 1;
  if (!is_good) return std::nullopt;
  return opened.buffer();
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
