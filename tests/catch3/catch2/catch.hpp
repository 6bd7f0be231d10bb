// Catch2 3 (Debian 13) under the name that Catch2 2 (Debian 12) gives its header.
#pragma once

#include <catch2/catch_all.hpp>

using Catch::Approx;
