// Texts that the holder of a key, or of a certificate, has signed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "square/identity.h"
#include "trust/openssl.h"

namespace square::trust {

// With the hash that goes with the key. What is signed should begin with what it is, so that it is taken for
// nothing else that the key signs. Errors: INTERNAL with OpenSSL's words.
Result<std::string> sign(std::string_view text, EVP_PKEY& key);
[[nodiscard]] bool is_signed(std::string_view text, std::string_view signature, EVP_PKEY& key);

// Who signs: a key and its certificate.
struct Signer {
  KeyPtr key;
  CertificatePtr certificate;
};
// As the identity's files are now. Errors: those of reading them, INVALID_ARGUMENT.
Result<Signer> read_signer(const Identity& identity);

// The signature with the certificate of who has made it. Errors: INTERNAL.
Result<std::string> sign_as(std::string_view text, const Signer& signer);
// Who has signed the text so: one whom `identity` believes in one of the roles, whose certificate is valid
// now and of one of the authorities in `authority_pem`. Errors: INVALID_ARGUMENT for what is no signature,
// UNAUTHENTICATED, PERMISSION_DENIED.
Result<IdentityName> check_signed(std::string_view text, std::string_view signature, const Identity& identity,
                                  const std::vector<Role>& roles, std::string_view authority_pem);

// The authorities that the identity believes, in PEM. Errors: those of reading the file.
Result<std::string> authorities_of(const Identity& identity);

}  // namespace square::trust
