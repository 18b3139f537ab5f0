// Identities as arguments.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "bindings.h"
#include "square/identity.h"

namespace square::python {

// None, an Identity, or its folder.
using IdentityArgument = std::optional<std::variant<std::shared_ptr<Identity>, std::filesystem::path>>;

// Null for None and for an empty path. Raises what Identity::open() says.
std::shared_ptr<Identity> identity_of(const IdentityArgument& given);

}  // namespace square::python
