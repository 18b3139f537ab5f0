// Texts of any bytes in places that take few characters.
#pragma once

#include <string>
#include <string_view>

#include "square/status.h"

namespace square::net {

// As RFC 3986 has it: bytes that are not kept, and '%', become %XX with upper-case digits.
std::string percent_encode(std::string_view text, bool (*is_kept)(char));
// Errors: INVALID_ARGUMENT for a '%' without two such digits.
Result<std::string> percent_decode(std::string_view text);

}  // namespace square::net
