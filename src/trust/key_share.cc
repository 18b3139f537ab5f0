#include "trust/key_share.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace square::trust {
namespace {

using AgreementPtr = std::unique_ptr<EVP_PKEY_CTX, Freed<EVP_PKEY_CTX_free>>;

// Nothing else that a certificate signs begins so.
constexpr std::string_view kShareLabel = "square key share 1\n";
constexpr std::size_t kExchangeKeyBytes = 32;

std::string signed_text(std::string_view key) { return std::string(kShareLabel) + std::string(key); }

}  // namespace

KeyPtr make_exchange_key() { return KeyPtr(EVP_PKEY_Q_keygen(nullptr, nullptr, "X25519")); }

// The public key, and its signature.
Result<std::string> sign_share(EVP_PKEY& exchange_key, const Signer& signer) {
  std::string key(kExchangeKeyBytes, '\0');
  std::size_t size = key.size();
  if (EVP_PKEY_get_raw_public_key(&exchange_key, raw(key), &size) != 1 || size != key.size())
    return internal_error(openssl_error());
  SQUARE_ASSIGN_OR_RETURN(const std::string signature, sign_as(signed_text(key), signer));
  return key + signature;
}

Result<KeyShare> check_share(std::string_view share, const Identity& identity,
                             std::string_view authority_pem) {
  if (share.size() < kExchangeKeyBytes) return invalid_argument("it is no share of a key");
  const std::string_view bytes = share.substr(0, kExchangeKeyBytes);
  SQUARE_ASSIGN_OR_RETURN(IdentityName holder,
                          check_signed(signed_text(bytes), share.substr(kExchangeKeyBytes), identity,
                                       {Role::kNode, Role::kServer}, authority_pem));
  KeyPtr key(EVP_PKEY_new_raw_public_key_ex(nullptr, "X25519", nullptr, raw(bytes), bytes.size()));
  if (!key) return invalid_argument(openssl_error());
  return KeyShare{std::move(holder.name), std::move(key)};
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
