#include "trust/aes_gcm.h"

#include <algorithm>

#include "base/check.h"

namespace square::trust {
namespace {

// OpenSSL looks an algorithm up by name each time that it is asked for implicitly.
const EVP_CIPHER* cipher() {
  static const EVP_CIPHER* const found = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  SQUARE_CHECK(found != nullptr, "OpenSSL has no AES-256-GCM");
  return found;
}

}  // namespace

GcmSeal::GcmSeal(GcmKey key, const GcmNonce& nonce)
    : context_(EVP_CIPHER_CTX_new()),
      is_good_(context_ && EVP_EncryptInit_ex2(context_.get(), cipher(), raw(key.data()), raw(nonce.data()),
                                               nullptr) == 1) {}

void GcmSeal::add(std::span<const std::byte> piece, std::byte* out) {
  int written = 0;
  is_good_ = is_good_ && EVP_EncryptUpdate(context_.get(), raw(out), &written, raw(piece.data()),
                                           static_cast<int>(piece.size())) == 1;
}

void GcmSeal::finish(std::byte* tag) {
  int written = 0;
  is_good_ = is_good_ && EVP_EncryptFinal_ex(context_.get(), raw(tag), &written) == 1 &&
             EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_GET_TAG, kSealTagBytes, tag) == 1;
  SQUARE_CHECK(is_good_, "OpenSSL cannot seal");
}

GcmOpening::GcmOpening(GcmKey key, const GcmNonce& nonce)
    : context_(EVP_CIPHER_CTX_new()),
      is_good_(context_ && EVP_DecryptInit_ex2(context_.get(), cipher(), raw(key.data()), raw(nonce.data()),
                                               nullptr) == 1) {}

void GcmOpening::add(std::span<const std::byte> piece, std::byte* out) {
  int written = 0;
  is_good_ = is_good_ && EVP_DecryptUpdate(context_.get(), raw(out), &written, raw(piece.data()),
                                           static_cast<int>(piece.size())) == 1;
}

bool GcmOpening::finish(const std::byte* tag) {
  std::array<std::byte, kSealTagBytes> expected;  // OpenSSL takes no const one
  std::copy_n(tag, expected.size(), expected.begin());
  std::array<unsigned char, kSealTagBytes> rest;
  int written = 0;
  is_good_ =
      is_good_ &&
      EVP_CIPHER_CTX_ctrl(context_.get(), EVP_CTRL_AEAD_SET_TAG, kSealTagBytes, expected.data()) == 1 &&
      EVP_DecryptFinal_ex(context_.get(), rest.data(), &written) == 1;
  return is_good_;
}

}  // namespace square::trust
