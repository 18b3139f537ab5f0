// Grants as they are written.
#pragma once

#include <openssl/evp.h>

#include <string>

#include "square/grant.h"

namespace square::trust {

// For people to carry: two blocks of PEM, the grant, in JSON, and its signature. Errors: those of
// check_grant().
Result<std::string> sign_grant(const Grant& grant, EVP_PKEY& key);

}  // namespace square::trust
