#include "trust/openssl.h"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>

namespace square::trust {
namespace {

BioPtr reading(std::string_view text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// No terminal is asked for the password of a key that has one.
int no_password(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return 0; }

}  // namespace

std::string openssl_error() {
  std::array<char, 256> words{};
  ERR_error_string_n(ERR_peek_last_error(), words.data(), words.size());
  ERR_clear_error();
  return words.data();
}

std::string text_of(BIO& bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(&bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

CertificatePtr read_certificate_pem(std::string_view pem) {
  const BioPtr bio = reading(pem);
  CertificatePtr certificate(PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return certificate;
}

KeyPtr read_key_pem(std::string_view pem) {
  const BioPtr bio = reading(pem);
  KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  return key;
}

std::string to_pem(const X509& certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), &certificate);
  return text_of(*bio);
}

std::string to_pem(const EVP_PKEY& key) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr, nullptr);
  return text_of(*bio);
}

std::string fingerprint_of(const X509& certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  X509_digest(&certificate, EVP_sha256(), digest.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

KeyPtr make_key() { return KeyPtr(EVP_EC_gen("P-256")); }

}  // namespace square::trust
