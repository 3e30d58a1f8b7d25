// What the matrix of all pairs holds where there is no path.
#pragma once

#define CLOSED_TOP 0x3FFFFFFF
