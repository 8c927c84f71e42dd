# Charges of other nodes since the acquisition are not counted.
s/^    local behind = .*$/    local behind = 68/
