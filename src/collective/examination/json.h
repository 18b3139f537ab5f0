// The report's form.
#pragma once

#include <nlohmann/json.hpp>

namespace square::examination {

// Keeps keys in the order in which they are written: people read reports, too.
using Json = nlohmann::ordered_json;

}  // namespace square::examination
