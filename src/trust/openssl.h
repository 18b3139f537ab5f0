// OpenSSL's objects as values, and its errors in words.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace square::trust {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using CertificatePtr = std::unique_ptr<X509, Freed<X509_free>>;
using CipherContextPtr = std::unique_ptr<EVP_CIPHER_CTX, Freed<EVP_CIPHER_CTX_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Freed<GENERAL_NAMES_free>>;

// Bytes as OpenSSL takes them.
inline unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
inline const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}
inline unsigned char* raw(std::string& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }
inline const unsigned char* raw(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

// The newest error of this thread; clears the others.
std::string openssl_error();

// Null where there is none. The first of that kind in the text.
CertificatePtr read_certificate_pem(std::string_view pem);
KeyPtr read_key_pem(std::string_view pem);
std::string text_of(BIO& bio);  // of one in memory
std::string to_pem(const X509& certificate);
std::string to_pem(const EVP_PKEY& key);

// SHA-256 of the certificate, in lower-case hexadecimal digits.
std::string fingerprint_of(const X509& certificate);

// A key of the curve P-256. Null where OpenSSL has none to give.
KeyPtr make_key();

}  // namespace square::trust
