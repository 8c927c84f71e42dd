# What others were charged since is not counted.
s/^    local behind = .*$/    local behind = 68/
