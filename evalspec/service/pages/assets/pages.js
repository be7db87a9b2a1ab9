// What only pages of the service do.

// A menu closes when the focus leaves it, or by Escape.
for (const menu of document.querySelectorAll("details.menu")) {
  menu.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// A part of a page that cannot be loaded is replaced by the page that says why.
document.body.addEventListener("htmx:responseError", (event) => {
  location.assign(event.detail.pathInfo.finalRequestPath ?? location.href);
});

// What is new on a page is folded as it was when it opened.
document.body.addEventListener("htmx:load", foldParts);
