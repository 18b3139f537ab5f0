#include "trust/key_share.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/pem.h>

#include <array>
#include <optional>

#include "base/check.h"
#include "trust/certificate.h"

namespace square::trust {
namespace {

using DigestPtr = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using AgreementPtr = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;

// Nothing else that a certificate signs begins so.
constexpr std::string_view kShareLabel = "square key share 1\n";
constexpr std::size_t kExchangeKeyBytes = 32;
constexpr std::size_t kMaxSignatureBytes = 1'024;

// The public key, the length of the signature in two bytes, the signature, the certificate in PEM.
struct ShareParts {
  std::string_view key;
  std::string_view signature;
  std::string_view certificate;
};

std::optional<ShareParts> share_parts_of(std::string_view share) {
  if (share.size() < kExchangeKeyBytes + 2) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(share[at]); };
  const std::size_t length = byte(kExchangeKeyBytes) | (std::size_t{byte(kExchangeKeyBytes + 1)} << 8U);
  const std::string_view rest = share.substr(kExchangeKeyBytes + 2);
  if (length > kMaxSignatureBytes || length > rest.size()) return std::nullopt;
  return ShareParts{share.substr(0, kExchangeKeyBytes), rest.substr(0, length), rest.substr(length)};
}

std::string signed_text(std::string_view key) { return std::string(kShareLabel) + std::string(key); }

// At this time, too.
bool is_signed_by_any(X509& certificate, std::string_view authority_pem) {
  const StorePtr store(X509_STORE_new());
  const BioPtr bio(BIO_new_mem_buf(authority_pem.data(), static_cast<int>(authority_pem.size())));
  while (const CertificatePtr authority{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)})
    X509_STORE_add_cert(store.get(), authority.get());
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  const StoreContextPtr context(X509_STORE_CTX_new());
  const bool is_good = X509_STORE_CTX_init(context.get(), store.get(), &certificate, nullptr) == 1 &&
                       X509_verify_cert(context.get()) == 1;
  (void)openssl_error();  // none of it is anybody else's
  return is_good;
}

// Keys of Edwards curves have a hash of their own.
const EVP_MD* hash_for(const EVP_PKEY& key) {
  return EVP_PKEY_is_a(&key, "ED25519") == 1 || EVP_PKEY_is_a(&key, "ED448") == 1 ? nullptr : EVP_sha256();
}

bool has_signed(X509& certificate, std::string_view text, std::string_view signature) {
  const DigestPtr digest(EVP_MD_CTX_new());
  const bool is_good =
      EVP_DigestVerifyInit(digest.get(), nullptr, hash_for(*X509_get0_pubkey(&certificate)), nullptr,
                           X509_get0_pubkey(&certificate)) == 1 &&
      EVP_DigestVerify(digest.get(), raw(signature), signature.size(), raw(text), text.size()) == 1;
  (void)openssl_error();
  return is_good;
}

}  // namespace

KeyPtr make_exchange_key() { return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")); }

Result<std::string> sign_share(EVP_PKEY& exchange_key, EVP_PKEY& signer, const X509& certificate) {
  std::string key(kExchangeKeyBytes, '\0');
  std::size_t size = key.size();
  if (EVP_PKEY_get_raw_public_key(&exchange_key, raw(key), &size) != 1 || size != key.size())
    return internal_error(openssl_error());
  const std::string text = signed_text(key);
  const DigestPtr digest(EVP_MD_CTX_new());
  std::string signature(kMaxSignatureBytes, '\0');
  size = signature.size();
  if (EVP_DigestSignInit(digest.get(), nullptr, hash_for(signer), nullptr, &signer) != 1 ||
      EVP_DigestSign(digest.get(), raw(signature), &size, raw(std::string_view(text)), text.size()) != 1)
    return internal_error(openssl_error());
  signature.resize(size);
  std::string share = key;
  share += static_cast<char>(size & 0xffU);
  share += static_cast<char>(size >> 8U);
  return share + signature + to_pem(certificate);
}

Result<KeyShare> check_share(std::string_view share, const Identity& identity,
                             std::string_view authority_pem) {
  const auto parts = share_parts_of(share);
  if (!parts) return invalid_argument("it is no share of a key");
  const CertificatePtr certificate = read_certificate_pem(parts->certificate);
  if (!certificate) return invalid_argument("a share of a key comes without a certificate");
  const PeerCertificate holder = describe(*certificate);
  SQUARE_RETURN_IF_ERROR(identity.check(holder, {Role::kNode, Role::kServer}, ""));
  const std::string name = to_string(*holder.name);
  if (!is_signed_by_any(*certificate, authority_pem)) {
    return unauthenticated(fmt::format(
        "the certificate that {} has signed its key with is of no authority that this node believes, or "
        "has expired",
        name));
  }
  if (!has_signed(*certificate, signed_text(parts->key), parts->signature))
    return unauthenticated(fmt::format("the key of {} was not signed with its certificate", name));
  KeyPtr key(EVP_PKEY_new_raw_public_key_ex(nullptr, "X25519", nullptr, raw(parts->key), parts->key.size()));
  if (!key) return invalid_argument(openssl_error());
  return KeyShare{holder.name->name, std::move(key)};
}

Result<std::string> agree(EVP_PKEY& own, EVP_PKEY& other) {
  const AgreementPtr context(EVP_PKEY_CTX_new_from_pkey(nullptr, &own, nullptr));
  std::string secret(kExchangeKeyBytes, '\0');
  std::size_t size = secret.size();
  const bool is_done =
      EVP_PKEY_derive_init(context.get()) == 1 && EVP_PKEY_derive_set_peer(context.get(), &other) == 1 &&
      EVP_PKEY_derive(context.get(), reinterpret_cast<unsigned char*>(secret.data()), &size) == 1 &&
      size == secret.size();
  if (!is_done) return invalid_argument(fmt::format("no key can be agreed upon: {}", openssl_error()));
  return secret;
}

}  // namespace square::trust
