#include "trust/signature.h"

#include <fmt/format.h>
#include <openssl/pem.h>

#include <filesystem>
#include <optional>

#include "base/check.h"
#include "trust/certificate.h"
#include "trust/files.h"

namespace square::trust {
namespace {

using DigestPtr = std::unique_ptr<EVP_MD_CTX, Freed<EVP_MD_CTX_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;

constexpr std::size_t kMaxSignatureBytes = 1'024;

// Keys of Edwards curves have a hash of their own.
const EVP_MD* hash_for(const EVP_PKEY& key) {
  return EVP_PKEY_is_a(&key, "ED25519") == 1 || EVP_PKEY_is_a(&key, "ED448") == 1 ? nullptr : EVP_sha256();
}

// At this time, too.
bool is_of_any(X509& certificate, std::string_view authority_pem) {
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

// The length of the signature in two bytes, it, and the certificate in PEM.
struct SignatureParts {
  std::string_view signature;
  std::string_view certificate;
};

std::optional<SignatureParts> signature_parts_of(std::string_view bytes) {
  if (bytes.size() < 2) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
  const std::size_t length = byte(0) | (std::size_t{byte(1)} << 8U);
  const std::string_view rest = bytes.substr(2);
  if (length > kMaxSignatureBytes || length > rest.size()) return std::nullopt;
  return SignatureParts{rest.substr(0, length), rest.substr(length)};
}

}  // namespace

Result<std::string> sign(std::string_view text, EVP_PKEY& key) {
  const DigestPtr digest(EVP_MD_CTX_new());
  std::string signature(kMaxSignatureBytes, '\0');
  std::size_t size = signature.size();
  if (EVP_DigestSignInit(digest.get(), nullptr, hash_for(key), nullptr, &key) != 1 ||
      EVP_DigestSign(digest.get(), raw(signature), &size, raw(text), text.size()) != 1)
    return internal_error(fmt::format("cannot sign: {}", openssl_error()));
  signature.resize(size);
  return signature;
}

bool is_signed(std::string_view text, std::string_view signature, EVP_PKEY& key) {
  const DigestPtr digest(EVP_MD_CTX_new());
  const bool is_good =
      EVP_DigestVerifyInit(digest.get(), nullptr, hash_for(key), nullptr, &key) == 1 &&
      EVP_DigestVerify(digest.get(), raw(signature), signature.size(), raw(text), text.size()) == 1;
  (void)openssl_error();
  return is_good;
}

Result<Signer> read_signer(const Identity& identity) {
  const std::string file = (std::filesystem::path(identity.folder()) / Identity::kIdentityFile).string();
  SQUARE_ASSIGN_OR_RETURN(const std::string pem, read_file(file, Secrecy::kSecret));
  Signer signer{read_key_pem(pem), read_certificate_pem(pem)};
  if (!signer.key || !signer.certificate)
    return invalid_argument(fmt::format("{} does not hold a key and a certificate", file));
  return signer;
}

Result<std::string> sign_as(std::string_view text, const Signer& signer) {
  SQUARE_ASSIGN_OR_RETURN(const std::string signature, sign(text, *signer.key));
  std::string bytes;
  bytes += static_cast<char>(signature.size() & 0xffU);
  bytes += static_cast<char>(signature.size() >> 8U);
  return bytes + signature + to_pem(*signer.certificate);
}

Result<IdentityName> check_signed(std::string_view text, std::string_view signature, const Identity& identity,
                                  const std::vector<Role>& roles, std::string_view authority_pem) {
  const auto parts = signature_parts_of(signature);
  if (!parts) return invalid_argument("it is no signature");
  const CertificatePtr certificate = read_certificate_pem(parts->certificate);
  if (!certificate) return invalid_argument("a signature comes without a certificate");
  const PeerCertificate holder = describe(*certificate);
  SQUARE_RETURN_IF_ERROR(identity.check(holder, roles, ""));
  const std::string name = to_string(*holder.name);
  if (!is_of_any(*certificate, authority_pem)) {
    return unauthenticated(fmt::format(
        "the certificate that {} has signed with is of no authority that is believed here, or has expired",
        name));
  }
  if (!is_signed(text, parts->signature, *X509_get0_pubkey(certificate.get())))
    return unauthenticated(fmt::format("what is said to be signed by {} is not", name));
  return *holder.name;
}

Result<std::string> authorities_of(const Identity& identity) {
  return read_file((std::filesystem::path(identity.folder()) / Identity::kAuthorityFile).string(),
                   Secrecy::kPublic);
}

}  // namespace square::trust
