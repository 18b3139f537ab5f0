// What a TOML text must keep to before the parser sees it.
#pragma once

#include <string_view>

#include "square/status.h"

namespace square {

// Each part of a dotted key is a table inside another, which the parser takes apart by recursion:
// a key of a million parts would end the program. Errors: INVALID_ARGUMENT with file and line
// for a key of more than 64 parts.
Status check_toml_keys(std::string_view text, std::string_view source_name);

}  // namespace square
