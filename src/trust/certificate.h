// Certificates: what they say, and making them.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "square/identity.h"
#include "trust/openssl.h"

namespace square::trust {

PeerCertificate describe(const X509& certificate);

// Seconds since 1970; the end of its time.
std::int64_t expiry_of(const X509& certificate);

struct Wanted {
  std::string common_name;           // for people
  std::optional<IdentityName> name;  // none: it names nobody
  std::chrono::seconds life{0};
  bool is_authority = false;
};
// A certificate of `key`, signed with the key of `issuer`, or by itself where there is none. Errors: INTERNAL
// with OpenSSL's words.
Result<CertificatePtr> make_certificate(const Wanted& wanted, EVP_PKEY& key, X509* issuer,
                                        EVP_PKEY* issuer_key);

}  // namespace square::trust
