// Files of identities and authorities.
#pragma once

#include <string>

#include "square/status.h"

namespace square::trust {

// Certificates and keys are small.
inline constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20U;

enum class Secrecy : bool { kPublic, kSecret };

// Errors: NOT_FOUND, UNAVAILABLE, INVALID_ARGUMENT for more than kMaxFileBytes, PERMISSION_DENIED for a
// secret that others may read.
Result<std::string> read_file(const std::string& path, Secrecy secrecy);
// Puts it in the place of what was there at once, and on the disk. Errors: UNAVAILABLE naming the file.
Status write_file(const std::string& path, const std::string& text, Secrecy secrecy);
// With those above it; for its owner only. Errors: UNAVAILABLE.
Status make_folder(const std::string& path);

}  // namespace square::trust
