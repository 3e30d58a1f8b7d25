// What the matrix of all pairs holds where there is no path.
#pragma once

#define TOP_SUM 0x3FFFFFFF
