// The share of a node's process: a public key of X25519, signed with the node's certificate.
#pragma once

#include <string>
#include <string_view>

#include "square/identity.h"
#include "trust/openssl.h"
#include "trust/signature.h"

namespace square::trust {

KeyPtr make_exchange_key();

// Errors: INTERNAL with OpenSSL's words.
Result<std::string> sign_share(EVP_PKEY& exchange_key, const Signer& signer);

struct KeyShare {
  std::string node;  // whose it is, by its certificate
  KeyPtr key;        // public
};
// Of a share whose certificate one of the authorities in `authority_pem` has signed, which is valid now, and
// which `identity` believes. Errors: INVALID_ARGUMENT for what is no share, UNAUTHENTICATED,
// PERMISSION_DENIED.
Result<KeyShare> check_share(std::string_view share, const Identity& identity,
                             std::string_view authority_pem);

// What only the holders of the two keys can compute, 32 bytes. Errors: INVALID_ARGUMENT for a key of low
// order.
Result<std::string> agree(EVP_PKEY& own, EVP_PKEY& other);

}  // namespace square::trust
